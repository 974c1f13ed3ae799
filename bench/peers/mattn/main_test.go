package main

import (
	"testing"

	"github.com/greenroomdb/greenroom/bench/peers/internal/filestest"
)

func TestServe(t *testing.T) { filestest.Run(t, driver) }
