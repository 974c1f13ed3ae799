package main

import (
	"io"
	"os"

	"golang.org/x/term"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/serving"
)

// An env is what a command has to do with the world.
type env struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	progress       io.Writer // where bars are drawn, nil for nowhere
	getenv         func(string) string
	signals        *serving.Signals
	limits         batch.Limits // of actors that are written to; zero: the default
	withoutLogRest bool         // a store is read up to the damage of its log
	ask            askFlags
	leftOut        error // why the end of its log is left out, nil if it isn't
}

// terminal returns the file behind a stream that is a terminal, else nil.
func terminal(stream any) *os.File {
	if f, ok := stream.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}
