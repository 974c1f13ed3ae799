package adminsock

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// echo answers what is written on the connections that l accepts.
func echo(t *testing.T, l net.Listener) {
	t.Helper()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c) // what doesn't come back is what the test looks at
			}()
		}
	}()
}

// says returns whether a connection to the store in dir is answered.
func says(ctx context.Context, dir string) error {
	c, err := Dial(ctx, dir)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := io.WriteString(c, "hello"); err != nil {
		return err
	}
	back := make([]byte, 5)
	if _, err := io.ReadFull(c, back); err != nil {
		return err
	}
	if string(back) != "hello" {
		return errors.New("it says " + string(back))
	}
	return nil
}

func TestListen(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("d", MaxPath))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, dir, network, file string }{
		{"in the store", t.TempDir(), "unix", socketName},
		{"a short path", long, "unix", placeName},
		{"on loopback", t.TempDir(), "tcp", placeName},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.network == "unix" && !hasPeers {
				t.Skip("this system doesn't say whose the other end is")
			}
			if err := says(t.Context(), test.dir); !errors.Is(err, ErrNoSocket) {
				t.Errorf("before: %v", err)
			}
			// What is there is of a process that has ended.
			for _, name := range []string{socketName, placeName} {
				if err := os.WriteFile(filepath.Join(test.dir, name), []byte("{}"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			l, err := listen(t.Context(), test.dir, test.network, nil)
			if err != nil {
				t.Fatal(err)
			}
			echo(t, l)
			for range 2 {
				if err := says(t.Context(), test.dir); err != nil {
					t.Error(err)
				}
			}
			info, err := os.Stat(filepath.Join(test.dir, test.file))
			if err != nil || hasPeers && info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v, %v", test.file, info, err)
			}
			if err := errors.Join(l.Close(), l.Close()); err != nil {
				t.Error(err)
			}
			if err := says(t.Context(), test.dir); !errors.Is(err, ErrNoSocket) {
				t.Errorf("after Close: %v", err)
			}
			left, err := os.ReadDir(test.dir)
			if err != nil || len(left) > 0 {
				t.Errorf("after Close there are %v, %v", left, err)
			}
			if l.own != "" {
				if _, err := os.Stat(l.own); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("the folder of the socket: %v", err)
				}
			}
		})
	}
}

// TestToken: a client with another token is turned away, and keeps no other waiting.
func TestToken(t *testing.T) {
	dir := t.TempDir()
	away := make(chan error, 1)
	l, err := listen(t.Context(), dir, "tcp", func(err error) { away <- err })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	echo(t, l)
	silent, err := net.Dial("tcp", l.place.Address)
	if err != nil {
		t.Fatal(err)
	}
	if err := says(t.Context(), dir); err != nil {
		t.Errorf("beside a client that says nothing: %v", err)
	}
	silent.Close()
	if err := <-away; errors.Is(err, ErrUser) {
		t.Errorf("the client that says nothing: %v", err)
	}
	p := l.place
	p.Token = strings.Repeat("x", len(p.Token))
	if err := p.write(dir); err != nil {
		t.Fatal(err)
	}
	if err := says(t.Context(), dir); err == nil {
		t.Error("a client with another token is answered")
	}
	if err := <-away; !errors.Is(err, ErrUser) {
		t.Errorf("the client with another token: %v", err)
	}
}

func TestBadPlace(t *testing.T) {
	for _, text := range []string{"", "{}", `{"network":"udp","address":"x"}`, `{"network":"unix"}`, "{"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, placeName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Dial(t.Context(), dir); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, placeName)) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
