package serving

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/inspector"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/internal/storeurl"
)

// AdminFlags say where else than at the socket the store is served.
type AdminFlags struct {
	address   string
	advertise string
	tokenFile string
	insecure  bool
}

// maxAdminConns bounds the connections of the API. Of each store there are few clients, and each connection takes a file.
const maxAdminConns = 256

// AdminHelp is what commands with these flags say about them.
const AdminHelp = `--admin serves a page that shows the store at an address, and what the other commands read
and do as JSON over HTTP; see docs/operations.md. It takes --admin-tokens, a file that its
owner alone may read, of lines with a role (read or write), a name for the log, and a secret
of at least 16 characters.
It speaks no TLS: to listen elsewhere than on loopback takes --admin-insecure too.
Where several processes use the store, commands on other machines find the API by
--admin-advertise; see greenroom hosts.`

// Flags adds the flags.
func (f *AdminFlags) Flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.address, "admin", "", "`address` and port of the API to look into the store; port 0 takes any that is free")
	cmd.Flags().StringVar(&f.advertise, "admin-advertise", "", "`address` and port at which others reach the API, or https://ADDRESS:PORT of a proxy; default that of --admin, unless it is all of the machine's")
	cmd.Flags().StringVar(&f.tokenFile, "admin-tokens", "", "`file` of the tokens for --admin")
	cmd.Flags().BoolVar(&f.insecure, "admin-insecure", false, "let --admin listen elsewhere than on loopback, without TLS")
}

// tokens returns the tokens for the address, none without one.
func (f *AdminFlags) tokens() ([]admin.Token, error) {
	switch {
	case f.address == "" && (f.tokenFile != "" || f.insecure || f.advertise != ""):
		return nil, Usage("--admin-tokens, --admin-advertise and --admin-insecure are for --admin")
	case f.address == "":
		return nil, nil
	case f.tokenFile == "":
		return nil, Usage("--admin takes --admin-tokens")
	}
	if f.advertise != "" {
		if err := actorstore.CheckAddress(f.advertise); err != nil {
			return nil, Usage("--admin-advertise: " + err.Error())
		}
	}
	near, err := OnLoopback(f.address)
	if err != nil {
		return nil, Usage(fmt.Sprintf("--admin %s is not an address and a port", f.address))
	}
	if !near && !f.insecure {
		return nil, Usage(fmt.Sprintf("--admin %s would send tokens and data unencrypted: listen on loopback behind a proxy, or set --admin-insecure", f.address))
	}
	return ReadAdminTokens(f.tokenFile)
}

// OnLoopback says whether only this machine gets to an address.
func OnLoopback(address string) (bool, error) {
	name, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(name)
	return name == "localhost" || ip != nil && ip.IsLoopback(), err
}

// ReadAdminTokens reads a file of tokens. No error repeats what is in it.
func ReadAdminTokens(name string) (tokens []admin.Token, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close() // nothing was written
	info, err := file.Stat()
	if err == nil && info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
		err = errkind.Say(fs.ErrPermission, "%s has mode %#o: others than its owner get at the tokens; chmod 600 %s", name, info.Mode().Perm(), name)
	}
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, err
	}
	for i, line := range strings.Split(string(text), "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		words := strings.Fields(line)
		if len(words) != 3 {
			return nil, errkind.Say(nil, "%s, line %d: a token is a role, a name and a secret", name, i+1)
		}
		tokens = append(tokens, admin.Token{Role: admin.Role(words[0]), Name: words[1], Secret: words[2]})
	}
	if err := admin.CheckTokens(tokens); err != nil {
		return nil, errkind.Say(err, "%s: %s", name, strings.TrimPrefix(err.Error(), admin.ErrTokens.Error()+": "))
	}
	return tokens, nil
}

// told returns the address that others are told of an API that listens at one; "" if it is all of the machine's, which others know by names that this one
// doesn't.
func (f *AdminFlags) told(at net.Addr) string {
	if tcp, ok := at.(*net.TCPAddr); f.advertise == "" && ok && tcp.IP.IsUnspecified() {
		return ""
	}
	return cmp.Or(f.advertise, at.String())
}

// An advertiser is a store that may be one of several on an engine: an actorstore.Store, or what has one.
type advertiser interface {
	Advertise(ctx context.Context, address string) error
}

// An adminServer lets tools into a store while it is open.
type adminServer struct {
	flags  *AdminFlags
	tokens []admin.Token
	Opts   admin.Options
	Owner  advertiser      // has the actors, besides the store that is served; nil for none
	At     string          // what announces the API, a line; "" without one
	page   *inspector.Page // nil without an API
}

// server returns the server that the flags ask for.
func (f *AdminFlags) Server(log *slog.Logger) (*adminServer, error) {
	tokens, err := f.tokens()
	return &adminServer{flags: f, tokens: tokens, Opts: admin.Options{Logger: log}}, err
}

// Listen lets the other commands into a store in a directory, and clients with a token into any. The caller calls end before it closes the store, and what has its actors awake.
func (a *adminServer) Listen(ctx context.Context, s *storeurl.Store, url string) (end func() error, err error) {
	var servers []*admin.Server
	end = func() (err error) {
		for _, s := range servers {
			err = errors.Join(err, s.Close())
		}
		if a.page != nil {
			a.page.Close()
		}
		return err
	}
	dir, is, err := storeurl.Dir(url)
	if err == nil && is {
		var tools *admin.Server
		if tools, err = admin.Listen(ctx, dir, s.Store, &a.Opts); err == nil {
			servers = append(servers, tools)
		}
	}
	if err == nil && a.flags.address != "" {
		var api *admin.Server
		var address string
		if api, address, err = a.serve(ctx, s); err == nil {
			servers = append(servers, api)
			err = a.advertise(ctx, s, address)
		}
	}
	if err != nil {
		return nil, errors.Join(err, end())
	}
	return end, nil
}

// advertise tells the other hosts of the store the address.
func (a *adminServer) advertise(ctx context.Context, s *storeurl.Store, address string) error {
	err := s.Lower().Advertise(ctx, address)
	if err == nil && a.Owner != nil {
		err = a.Owner.Advertise(ctx, address)
	}
	return err
}

// serve serves clients with a token, and returns at which address others reach it.
func (a *adminServer) serve(ctx context.Context, s *storeurl.Store) (_ *admin.Server, address string, err error) {
	ln, err := listen(ctx, a.flags.address)
	if err != nil {
		return nil, "", err
	}
	limit := newConnLimit(ln, maxAdminConns)
	opts := a.Opts
	a.page = NewPage(ln.Addr(), a.flags.advertise, opts.Logger)
	opts.Tokens, opts.ConnState, opts.Page = a.tokens, limit.watch, a.page
	api, err := admin.Serve(ctx, limit, s.Store, &opts)
	if err == nil {
		a.At = fmt.Sprintf("look into the store at http://%s/, with a token of %s; its API is described at /v1/openapi.json there\n", ln.Addr(), a.flags.tokenFile)
	}
	return api, a.flags.told(ln.Addr()), err
}

// NewPage returns the page that stands on the API at an address of this machine, and that others reach at advertised, "" for the same address. The caller closes it.
func NewPage(at net.Addr, advertised string, log *slog.Logger) *inspector.Page {
	address := at.String()
	if tcp, ok := at.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		address = net.JoinHostPort("127.0.0.1", strconv.Itoa(tcp.Port))
	}
	o := &inspector.Options{Logger: log}
	if name, _, err := net.SplitHostPort(strings.TrimPrefix(advertised, "https://")); err == nil {
		o.Hosts = append(o.Hosts, name)
	}
	return inspector.New(func(ctx context.Context, secret string) (*admin.Client, error) {
		return admin.DialAddress(ctx, address, secret)
	}, o)
}
