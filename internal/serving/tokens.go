package serving

import (
	"fmt"
	"os"
	"strings"

	"github.com/greenroomdb/greenroom/host/front"
	"github.com/greenroomdb/greenroom/internal/errkind"
)

// tokens returns the tokens of the token file, none if the host doesn't need any: that is
// only so on loopback, or if something else decides on callers.
func (f *hostFlags) tokens(decided bool) ([]string, error) {
	if f.tokenFile != "" {
		return ReadTokens(f.tokenFile)
	}
	near, err := IsNear(f.listen)
	if err != nil {
		return nil, err
	}
	if !near && f.jwt.jwks == "" && !decided {
		return nil, Usage(fmt.Sprintf("to listen on %s takes a --token-file, or --jwks: others than this machine get there", f.listen))
	}
	return nil, nil
}

// IsNear says whether only this machine gets to the address of --listen.
func IsNear(listen string) (bool, error) {
	near, err := OnLoopback(listen)
	if err != nil {
		err = Usage(fmt.Sprintf("--listen %s is not an address and a port", listen))
	}
	return near, err
}

// ReadTokens reads a token file. No error repeats what is in it.
func ReadTokens(name string) (tokens []string, err error) {
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
			return nil, errkind.Say(nil, "%s, line %d: a token has at least %d characters, all of them printable ASCII without spaces", name, i+1, front.MinToken)
		}
		tokens = append(tokens, line)
	}
	if len(tokens) == 0 {
		return nil, errkind.Say(nil, "there is no token in %s", name)
	}
	return tokens, nil
}
