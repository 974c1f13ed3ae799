package main

import (
	"testing"

	"github.com/greenroomdb/greenroom/internal/testkit"
)

// TestRun runs the program on a new store.
func TestRun(t *testing.T) { testkit.Program(t, main) }
