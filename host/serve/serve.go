// Package serve makes a whole program of types of actors, the one that greenroom host is, with its flags: addresses, tokens, TLS, a fleet, a backup, metrics, the API to
// look into the store.
//
//	func main() { serve.Main(counter) }
//
// The program is called with the store, as in "counter data --listen 127.0.0.1:6420"; --help lists the flags, and docs/front.md says how clients reach it.
// Programs that serve more than a host on an address use package front instead, whose Front is a handler.
package serve

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/front"
	"github.com/greenroomdb/greenroom/internal/serving"
)

// A Config is what a program serves. Nothing in it changes once Main or Run is called.
type Config struct {
	// Types are those of the actors, at least one.
	Types []*host.Type
	// Pages serves the paths that are no actor's; nil for not found. See front.Options.Pages.
	Pages http.Handler
	// Authorize decides on each caller without a token of --token-file; see front.Options.Authorize. With it the program may listen to other machines
	// without a token, and --jwks is refused. nil leaves it to the flags.
	Authorize func(ctx context.Context, r *http.Request, a *front.Access) (*host.Caller, error)
	// Name is what the program calls itself in its help and its messages, a word; "" for the name of its file.
	Name string
	// Stdout gets the address at which the program serves, and Stderr its log and what goes wrong. nil stands for those of the process.
	Stdout, Stderr io.Writer
}

// Main serves actors of these types as the process's arguments say, and ends the process: see Config.Main.
func Main(types ...*host.Type) { (&Config{Types: types}).Main() }

// Main serves as the process's arguments say until SIGTERM or an interrupt (Ctrl-C), and ends the process with the status that Run returns. A second such signal
// ends it at once.
func (c *Config) Main() {
	ctx, _, stop := serving.WatchSignals(context.Background())
	code := c.Run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// Run serves as the arguments say, those behind the program's name, until ctx ends, and returns the exit status: 0 when ctx has ended it and all is closed, 1 when something went
// wrong, 2 when the arguments make no sense, and 3 when the store has failed for good and a supervisor should start the program again. What went wrong is on Stderr.
func (c *Config) Run(ctx context.Context, args []string) int {
	name := cmp.Or(c.Name, strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe"))
	command := &serving.HostCommand{
		Use: name + " STORE", Short: "Serve actors over HTTP and WebSockets",
		Example:   "  " + name + " data\n  " + name + " data --listen 0.0.0.0:6420 --token-file tokens",
		Authorize: c.Authorize,
		Prepare: func(context.Context) (*serving.Hosted, error) {
			if len(c.Types) == 0 {
				return nil, errors.New("there are no types to serve")
			}
			return &serving.Hosted{Types: c.Types, Pages: c.Pages}, nil
		},
	}
	root := command.Command()
	root.SetOut(either(c.Stdout, os.Stdout))
	root.SetErr(either(c.Stderr, os.Stderr))
	return serving.Run(ctx, root, args)
}

func either(w io.Writer, or *os.File) io.Writer {
	if w == nil {
		return or
	}
	return w
}
