//go:build unix

package pgkv

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/kv"
)

// An authority signs certificates.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	file string // with the certificate
}

func newAuthority(t testing.TB, name string) *authority {
	t.Helper()
	a := &authority{file: filepath.Join(t.TempDir(), "ca.crt")}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(a.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

// serve has a server take TLS, with a certificate for 127.0.0.1.
func (a *authority) serve(t testing.TB, n *pgtest.Node) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "server"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{"server.crt": {Type: "CERTIFICATE", Bytes: der}, "server.key": {Type: "PRIVATE KEY", Bytes: private}} {
		// The server writes them itself: it must own them, and only it may read the key.
		n.SQL(t, fmt.Sprintf(`copy (select '%s') to program 'umask 077; base64 -d > %s'`,
			base64.StdEncoding.EncodeToString(pem.EncodeToMemory(block)), file))
	}
	n.SQL(t, `alter system set ssl = on`)
	n.SQL(t, `select pg_reload_conf()`)
	await(t, func() bool { return n.SQL(t, `show ssl`) == "on" })
}

// TestTLS: a client told to verify the server checks its certificate and its name.
func TestTLS(t *testing.T) {
	t.Parallel()
	n := pgtest.Start(t, "fsync=off")
	ca := newAuthority(t, "right")
	ca.serve(t, n)
	other := newAuthority(t, "wrong")
	address := func(host, mode string, a *authority) string {
		u := strings.Replace(n.URL(patient+"&sslrootcert="+url.QueryEscape(a.file)), "sslmode=disable", "sslmode="+mode, 1)
		return strings.Replace(u, "127.0.0.1", host, 1)
	}
	// Nothing else may work.
	n.SQL(t, `copy (select 'hostssl all all 127.0.0.1/32 trust') to program 'cat > pg_hba.conf'`)
	n.SQL(t, `select pg_reload_conf()`)

	db := openAt(t, address("127.0.0.1", "verify-full", ca), nil)
	if err := db.Commit(ctx, &kv.Commit{Ops: []kv.Op{set("a", "1")}}); err != nil {
		t.Fatal(err)
	}
	wantGet(t, db, "a", "1")
	c, err := db.reads.take(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	on, _, err := c.one(ctx, `select ssl from pg_stat_ssl where pid = pg_backend_pid()`)
	db.reads.give(c)
	if err != nil || on != "t" {
		t.Errorf("ssl is %q, %v", on, err)
	}
	// A request to cancel takes a connection of its own.
	p, err := db.writes.take(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.pg.CancelRequest(ctx); err != nil {
		t.Errorf("asking to cancel: %v", err)
	}
	p.kill()
	db.writes.give(p)

	for name, test := range map[string]struct {
		address string
		says    string
	}{
		"another authority":              {address("127.0.0.1", "verify-full", other), "unknown authority"},
		"another authority, of any name": {address("127.0.0.1", "verify-ca", other), "unknown authority"},
		"a name that isn't in it":        {address("localhost", "verify-full", ca), "localhost"},
		"a server that is only for TLS":  {n.URL(patient), "no encryption"},
	} {
		_, err := Open(ctx, test.address, &Options{RetryFor: -1, MustExist: true})
		var server *ServerError
		if !errors.Is(err, ErrUnavailable) && !errors.As(err, &server) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if b, err := os.ReadFile(ca.file); err != nil || !bytes.Contains(b, []byte("CERTIFICATE")) {
		t.Error(err)
	}
}
