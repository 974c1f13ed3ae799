package main

import (
	"strings"
	"testing"
)

func TestServe(t *testing.T) {
	var out strings.Builder
	if err := serve(t.Context(), strings.NewReader("10\n0\n3\n"), &out); err != nil || out.String() != "10\n0\n3\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
	if err := serve(t.Context(), strings.NewReader("ten\n"), &out); err == nil {
		t.Error("no error for what is no number")
	}
}
