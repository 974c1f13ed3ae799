package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/kv"
)

// The variables of the environment that stand in for the flags of askFlags.
const (
	tokenVariable    = "GREENROOM_ADMIN_TOKEN"
	insecureVariable = "GREENROOM_ADMIN_INSECURE"
)

// askFlags say how the host is asked that has an actor, where several hosts use a store.
type askFlags struct {
	tokenFile string
	insecure  bool
}

// asking are the commands that write to an actor which a host may have, or are done by it.
var asking = []string{
	"conns discard", "conns disconnect", "drop", "import", "label", "migrate", "put", "queue drain", "queue redrive", "queue send", "rm", "sleep", "sql",
	"wake", "workflow again", "workflow cancel", "workflow replay", "workflow retry",
}

// flags adds the flags to the commands below root that ask a host.
func (f *askFlags) flags(root *cobra.Command) {
	for _, name := range asking {
		cmd, _, err := root.Find(strings.Fields(name))
		if err != nil || cmd == root {
			panic("greenroom: no command is called " + name)
		}
		cmd.Flags().StringVar(&f.tokenFile, "admin-token-file", "", "`file` with a token for the host that has the actor, as for host --admin-tokens; default $"+tokenVariable)
		cmd.Flags().BoolVar(&f.insecure, "admin-insecure", false, "send the token to other machines without TLS, too, as with "+insecureVariable+"=1")
	}
}

// elsewhere says that err is because another process has the store open, or the actor.
func elsewhere(err error) bool {
	return errors.Is(err, kv.ErrStoreInUse) || errors.As(err, new(*actorstore.InUseError))
}

// An asker asks hosts.
type asker struct{ *env }

// inUseBy says which host has an actor.
func inUseBy(actor string, h *actorstore.HostInfo) string {
	return fmt.Sprintf("the actor %s is in use by the host %q (%s)", actor, visibleText(h.Name), h.ID)
}

// dial returns a client of a host. has says what that has to do with the actor, and inUse is why it is asked. The caller closes the client. The token
// goes to no address but that in the row of a host whose lease holds.
func (e asker) dial(ctx context.Context, has string, h *actorstore.HostInfo, inUse error) (*admin.Client, error) {
	if h.Address == "" {
		return nil, say(inUse, "%s, which tells no address of its API: try again when the actor sleeps there, or start that host with --admin", has)
	}
	has += ", whose API is at " + h.Address
	token, err := e.token()
	near := false
	if err == nil {
		near, err = serving.OnLoopback(strings.TrimPrefix(h.Address, "https://"))
	}
	insecure := e.ask.insecure || e.getenv(insecureVariable) == "1"
	safe := near || strings.HasPrefix(h.Address, "https://") || insecure
	switch {
	case err != nil:
		return nil, err
	case token == "":
		return nil, say(inUse, "%s: set %s to a token with which it may be written to, or name a file with one by --admin-token-file", has, tokenVariable)
	case near && !h.Here && !insecure:
		return nil, say(inUse, "%s, an address on loopback of a host that isn't known to run on this machine, where another process may listen there: have that host tell an address of its own by --admin-advertise, or set --admin-insecure", has)
	case !safe:
		return nil, say(inUse, "%s, where the token would be sent unencrypted: have that host tell the address of a proxy by --admin-advertise https://HOST:PORT, or set --admin-insecure", has)
	case !time.Now().Before(h.Expires):
		return nil, say(inUse, "%s, but its lease is over by the clock of this machine, so the token isn't sent there: another process may listen there by now; try again", has)
	}
	c, err := admin.DialAddress(ctx, h.Address, token)
	if said := (*admin.Error)(nil); err != nil && ctx.Err() == nil && !errors.As(err, &said) {
		return nil, say(err, "%s, which doesn't answer: %v", has, serving.RootCause(err))
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", has, err)
	}
	return c, nil
}

// token returns the secret with which a host is asked, the first of the file that may write; "" without one.
func (e asker) token() (string, error) {
	if e.ask.tokenFile == "" {
		return e.getenv(tokenVariable), nil
	}
	tokens, err := serving.ReadAdminTokens(e.ask.tokenFile)
	for _, t := range tokens {
		if t.Role == admin.RoleWrite {
			return t.Secret, err
		}
	}
	if err == nil {
		err = say(nil, "no token in %s may write", e.ask.tokenFile)
	}
	return "", err
}
