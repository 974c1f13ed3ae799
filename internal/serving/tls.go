package serving

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/spf13/cobra"
)

// TLSFlags say with which certificate a host speaks TLS.
type TLSFlags struct {
	cert, key string
	roots     string
}

// Flags adds the flags.
func (f *TLSFlags) Flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.cert, "tls-cert", "", "`file` of the certificate, with those between it and the root, in PEM: speak TLS; read again when it changes")
	cmd.Flags().StringVar(&f.key, "tls-key", "", "`file` of the certificate's private key, in PEM")
	cmd.Flags().StringVar(&f.roots, "fleet-ca", "", "`file` of the certificates that sign those of the other hosts, in PEM; default the system's")
}

// Check refuses one flag without the other.
func (f *TLSFlags) Check() error {
	if (f.cert == "") != (f.key == "") {
		return Usage("--tls-cert and --tls-key go together")
	}
	return nil
}

// Listen returns a listener that speaks TLS, if the flags say so.
func (f *TLSFlags) Listen(ln net.Listener, log *slog.Logger) (net.Listener, error) {
	if f.cert == "" {
		return ln, nil
	}
	c := &certificate{files: [2]string{f.cert, f.key}, log: log, now: time.Now}
	if err := c.load(); err != nil {
		return nil, errkind.Say(err, "can't read the certificate %s: %v", f.cert, RootCause(err))
	}
	return tls.NewListener(ln, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.get, NextProtos: []string{"http/1.1"}}), nil
}

// Address returns the beginning of the URLs of what is served by a listener.
func (f *TLSFlags) Address(ln net.Listener) string {
	if f.cert != "" {
		return "https://" + ln.Addr().String()
	}
	return "http://" + ln.Addr().String()
}

// config returns what is believed about other hosts, nil for what the system believes.
func (f *TLSFlags) config() (*tls.Config, error) {
	if f.roots == "" {
		return nil, nil
	}
	text, err := os.ReadFile(f.roots)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, errkind.Say(nil, "%s has no certificate in PEM", f.roots)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}, nil
}

// A certificate is one that is read again when its files change.
type certificate struct {
	files [2]string // of it, and of its key
	log   *slog.Logger
	now   func() time.Time

	mu     sync.Mutex
	loaded *tls.Certificate // +checklocks:mu
	of     [2]fileMark      // of what is loaded, or was tried last  +checklocks:mu
	looked time.Time        // +checklocks:mu
}

// A fileMark tells whether a file has changed.
type fileMark struct {
	size int64
	at   time.Time
}

// lookEvery is how often the files of a certificate are looked at, when clients connect.
const lookEvery = time.Second

// get is for tls.Config. A certificate that can't be read leaves the one of before.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.now(); now.Sub(c.looked) >= lookEvery || now.Before(c.looked) {
		c.looked = now
		if of, err := c.marks(); err != nil {
			c.log.Error("greenroom: the certificate can't be looked at", slog.Any("error", err))
		} else if of != c.of {
			if err := c.read(of); err != nil {
				c.log.Error("greenroom: the new certificate can't be read, and the old one stays", slog.Any("error", err))
			}
		}
	}
	return c.loaded, nil
}

// load reads the certificate for the first time.
func (c *certificate) load() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	of, err := c.marks()
	if err != nil {
		return err
	}
	return c.read(of)
}

// read reads the files, which had these marks before.
//
// +checklocks:c.mu
func (c *certificate) read(of [2]fileMark) error {
	c.of = of // also of one that can't be read: it is tried again when it changes
	loaded, err := tls.LoadX509KeyPair(c.files[0], c.files[1])
	if err != nil {
		return err
	}
	c.loaded = &loaded
	return nil
}

// marks looks at the files.
func (c *certificate) marks() (of [2]fileMark, err error) {
	for i, name := range c.files {
		var info fs.FileInfo
		info, statErr := os.Stat(name)
		if err = errors.Join(err, statErr); statErr == nil {
			of[i] = fileMark{info.Size(), info.ModTime()}
		}
	}
	return of, err
}
