package vfs_test

import (
	"log/slog"
	"os"
	"testing"
)

// TestMain keeps what databases say to the default logger out of the tests' output:
// thousands of them are made to fail, or to recover.
func TestMain(m *testing.M) {
	slog.SetLogLoggerLevel(slog.LevelError + 1)
	os.Exit(m.Run())
}
