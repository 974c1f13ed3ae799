package serving

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// writeCertificate writes a certificate of 127.0.0.1 with that number, which signs itself, and its key.
func writeCertificate(t *testing.T, dir string, number int64) (cert, key string) {
	t.Helper()
	pair, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(number), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, of, of, &pair.PublicKey, pair)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(pair)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		at := time.Unix(1_700_000_000+number, 0) // a clock that is coarse doesn't hide the change
		if err := os.Chtimes(name, at, at); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// TestCertificateReload: a certificate that changes is shown to those that connect next, and one that can't be read leaves the one of before.
func TestCertificateReload(t *testing.T) {
	dir := t.TempDir()
	now := time.Unix(0, 0)
	cert, key := writeCertificate(t, dir, 1)
	c := &certificate{files: [2]string{cert, key}, log: slog.New(slog.NewTextHandler(io.Discard, nil)), now: func() time.Time { return now }}
	if err := c.load(); err != nil {
		t.Fatal(err)
	}
	want := func(when string, number int64) {
		t.Helper()
		got, err := c.get(nil)
		if err != nil || got.Leaf.SerialNumber.Int64() != number {
			t.Errorf("%s: %v, %v", when, got.Leaf.SerialNumber, err)
		}
	}
	want("at first", 1)
	writeCertificate(t, dir, 2)
	want("within a second", 1)
	now = now.Add(lookEvery)
	want("changed", 2)
	if err := os.WriteFile(cert, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	now = now.Add(lookEvery)
	want("damaged", 2)
	if err := os.Remove(cert); err != nil {
		t.Fatal(err)
	}
	now = now.Add(lookEvery)
	want("gone", 2)
	writeCertificate(t, dir, 3)
	now = now.Add(lookEvery)
	want("mended", 3)
}

// TestListenTLS: a listener with a certificate speaks TLS, which the roots of --fleet-ca believe.
func TestListenTLS(t *testing.T) {
	f := &TLSFlags{}
	f.cert, f.key = writeCertificate(t, t.TempDir(), 1)
	f.roots = f.cert
	below, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln, err := f.Listen(below, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		if c, err := ln.Accept(); err == nil {
			_, _ = io.WriteString(c, "hello")
			_ = c.Close()
		}
	}()
	config, err := f.config()
	if err != nil {
		t.Fatal(err)
	}
	c, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := io.ReadAll(c); string(got) != "hello" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	for _, bad := range []TLSFlags{{cert: f.cert}, {key: f.key}} {
		if bad.Check() == nil {
			t.Errorf("%+v is fine", bad)
		}
	}
	if _, err := (&TLSFlags{cert: f.key, key: f.cert}).Listen(below, nil); err == nil {
		t.Error("a key is a certificate")
	}
	if _, err := (&TLSFlags{roots: f.key}).config(); err == nil {
		t.Error("a key is a root")
	}
}
