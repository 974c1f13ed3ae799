package main

import "github.com/greenroomdb/greenroom/internal/errkind"

// say returns err as a sentence.
func say(err error, format string, args ...any) error { return errkind.Say(err, format, args...) }
