package serving

import (
	"errors"
	"net/url"
	"regexp"

	"github.com/spf13/pflag"
)

// PageFlags adds the flags that say which pages of the web may call a server: --origin, which adds to origins, and --name, which adds to hosts.
// What no browser would send is refused, since it would never match.
func PageFlags(flags *pflag.FlagSet, origins, hosts *[]string) {
	flags.Func("origin", "`origin` whose pages may come from elsewhere (may be repeated)", func(text string) error {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || text != u.Scheme+"://"+u.Host {
			return errors.New("an origin is a scheme and a host, such as https://example.com or http://localhost:5173")
		}
		*origins = append(*origins, text)
		return nil
	})
	flags.Func("name", "`host` name by which this server may be addressed; default any, or loopback's (may be repeated)", func(text string) error {
		if !hostName.MatchString(text) {
			return errors.New("a name is that of a host, without a scheme and a port, such as example.com")
		}
		*hosts = append(*hosts, text)
		return nil
	})
}

// hostName matches names and addresses of hosts: those of IPv6 stand in brackets, or don't.
var hostName = regexp.MustCompile(`^([\pL\pN_-]+(\.[\pL\pN_-]+)*\.?|\[?[0-9A-Fa-f.]*:[0-9A-Fa-f:.]+\]?)$`)
