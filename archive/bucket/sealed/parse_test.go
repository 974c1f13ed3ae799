package sealed_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/archive/bucket/buckettest"
	"github.com/greenroomdb/greenroom/archive/bucket/sealed"
)

// TestParse tests files of keys as age's own programs write them.
func TestParse(t *testing.T) {
	r1, id1 := pair(t)
	r2, id2 := pair(t)
	quantum, err := age.GenerateHybridIdentity()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ recipients, identities, want string }{
		{"", "", "0 recipients, 0 identities"},
		{"# of the team\r\n\r\n  " + r1 + "\r\n" + r2, "", "2 recipients, 0 identities"},
		{"", "# created: today\n# public key: " + r1 + "\n" + id1 + "\n\n" + id2 + "\n", "0 recipients, 2 identities"},
		{quantum.Recipient().String(), quantum.String() + "\n" + id1, "1 recipients, 2 identities"},
	} {
		k, err := sealed.Parse(c.recipients, c.identities)
		if err != nil || k.String() != c.want {
			t.Errorf("Parse(%q, %q) = %v, %v; want %s", c.recipients, c.identities, k, err, c.want)
		}
	}
}

// TestParseErrors tests that an error names the line, and has nothing of it.
func TestParseErrors(t *testing.T) {
	r, id := pair(t)
	quantum, err := age.GenerateHybridIdentity()
	if err != nil {
		t.Fatal(err)
	}
	type texts struct{ recipients, identities, want string }
	cases := []texts{
		{"\n" + id, "", "line 2 of the recipients is an identity"},
		{strings.ToLower(id), "", "line 1 of the recipients is an identity"},
		{r[:len(r)-1], "", "line 1 of the recipients"},
		{"ssh-ed25519 AAAA", "", "line 1 of the recipients"},
		{r + "\n" + quantum.Recipient().String(), "", "quantum"},
		{"", "# it\n" + r, "line 2 of the identities"},
		{"", quantum.String()[:70], "line 1 of the identities"},
	}
	for i := len("AGE-SECRET-KEY-1"); i < len(id); i += 7 {
		for _, wrong := range []string{"1", "B", "q", "ä", " "} {
			cases = append(cases, texts{"", id[:i] + wrong + id[i+1:], "line 1 of the identities"})
		}
	}
	for _, c := range cases {
		_, err := sealed.Parse(c.recipients, c.identities)
		if !errors.Is(err, sealed.ErrKeys) || !strings.Contains(err.Error(), c.want) {
			t.Fatalf("Parse(%q, %q): %v; want %s", c.recipients, c.identities, err, c.want)
		}
		text := strings.ToUpper(err.Error())
		for i := len("AGE-SECRET-KEY-1"); i+8 < len(id); i++ {
			if strings.Contains(text, id[i:i+8]) {
				t.Fatalf("the error has characters of the secret in it: %v", err)
			}
		}
	}
}

// TestPrint tests that Keys don't print what they are.
func TestPrint(t *testing.T) {
	r, id := pair(t)
	k := parse(t, r, id)
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
		for _, v := range []any{k, *k, []*sealed.Keys{k}, struct{ K sealed.Keys }{*k}} {
			if text := strings.ToUpper(fmt.Sprintf(format, v)); strings.Contains(text, id) || strings.Contains(text, fmt.Sprintf("%X", id)) {
				t.Errorf("%s of %T prints a secret", format, v)
			}
		}
	}
	if got := fmt.Sprintf("%v %+v %#v", k, *k, k); got != strings.TrimSpace(strings.Repeat("1 recipients, 1 identities ", 3)) {
		t.Errorf("Keys print as %s", got)
	}
}

// TestForOwn tests that what is encrypted for the identities can be read with them, and not without a key.
func TestForOwn(t *testing.T) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	keys, err := sealed.Parse("", id.String())
	if err != nil {
		t.Fatal(err)
	}
	if keys, err = keys.ForOwn(); err != nil {
		t.Fatal(err)
	}
	memory := buckettest.NewMemory()
	b := sealed.New(memory, keys)
	if err := bucket.PutBytes(t.Context(), b, "a", []byte("x"), bucket.Once); err != nil {
		t.Fatal(err)
	}
	if data, _, err := bucket.GetBytes(t.Context(), b, "a", 0, -1); err != nil || string(data) != "x" {
		t.Errorf("%q, %v", data, err)
	}
	none, err := sealed.Parse("", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := none.ForOwn(); !errors.Is(err, sealed.ErrKeys) {
		t.Error(err)
	}
}
