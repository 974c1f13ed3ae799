package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/greenroomdb/greenroom/host/front"
)

// tokens returns the tokens of the token file, none if the host doesn't need any: that is
// only so on loopback.
func (f *hostFlags) tokens() ([]string, error) {
	if f.tokenFile != "" {
		return readTokens(f.tokenFile)
	}
	near, err := onLoopback(f.listen)
	if err != nil {
		return nil, &usageError{fmt.Sprintf("--listen %s is not an address and a port", f.listen)}
	}
	if !near && f.jwt.jwks == "" {
		return nil, &usageError{fmt.Sprintf("to listen on %s takes a --token-file, or --jwks: others than this machine get there", f.listen)}
	}
	return nil, nil
}

// readTokens reads a token file. No error repeats what is in it.
func readTokens(name string) (tokens []string, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if len(line) < front.MinToken || strings.ContainsFunc(line, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return nil, say(nil, "%s, line %d: a token has at least %d characters, all of them printable ASCII without spaces", name, i+1, front.MinToken)
		}
		tokens = append(tokens, line)
	}
	if len(tokens) == 0 {
		return nil, say(nil, "there is no token in %s", name)
	}
	return tokens, nil
}
