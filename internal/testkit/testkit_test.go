package testkit_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// TestPick: the variable asks for the long form, and -short or the race detector for the short one, whatever it says.
func TestPick(t *testing.T) {
	for _, tt := range []struct{ variable, want string }{{"", "quick"}, {"1", "long"}} {
		t.Setenv(testkit.LongVariable, tt.variable)
		if testing.Short() || testkit.Race {
			tt.want = "short"
		}
		if got := testkit.Pick("short", "quick", "long"); got != tt.want {
			t.Errorf("%s=%q: %s, want %s", testkit.LongVariable, tt.variable, got, tt.want)
		}
		if testkit.Long() != (tt.want == "long") || testkit.Short() != (tt.want == "short") {
			t.Errorf("%s=%q: long %v, short %v, want %s", testkit.LongVariable, tt.variable, testkit.Long(), testkit.Short(), tt.want)
		}
	}
}

func TestOnlyLong(t *testing.T) {
	t.Setenv(testkit.LongVariable, "")
	ran := true
	t.Run("it is skipped", func(t *testing.T) {
		defer func() { ran = !t.Skipped() }()
		testkit.OnlyLong(t, "it takes a year")
	})
	if ran {
		t.Error("a test of the long form runs in another one")
	}
}

func TestPatience(t *testing.T) {
	if short, long := testkit.Patience(time.Millisecond), testkit.Patience(time.Hour); short < time.Minute || long < 10*time.Hour {
		t.Errorf("%v and %v", short, long)
	}
}

func TestSharedDir(t *testing.T) {
	dir := testkit.SharedDir(t)
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if again := testkit.SharedDir(t); again != dir || !info.IsDir() || info.Mode().Perm()&0o055 != 0o055 {
		t.Errorf("%s and %s, %v", dir, again, info.Mode())
	}
}

// TestAtEnd: what is to be done at the end is done before the folder goes, the last one first.
func TestAtEnd(t *testing.T) {
	dir, done := testkit.SharedDir(t), false
	testkit.AtEnd(func() error {
		if !done {
			return errors.New("what was given last isn't done first")
		}
		return nil
	})
	testkit.AtEnd(func() error {
		done = true
		_, err := os.Stat(dir)
		return err
	})
}

// TestVectors reads what a file of vectors may have.
func TestVectors(t *testing.T) {
	t.Chdir(t.TempDir())
	file := `[{"Name": "a", "Schema": "s", "Version": 3, "Input": {"Key": {"$hex": "00ff"}}, "Hex": "0102"}]`
	if err := errors.Join(os.Mkdir("testdata", 0o755), os.WriteFile("testdata/v.json", []byte(file), 0o644)); err != nil {
		t.Fatal(err)
	}
	vs := testkit.Vectors(t, "v.json")
	if len(vs) != 1 || vs[0].Name != "a" || vs[0].Schema != "s" || vs[0].Version != 3 {
		t.Fatalf("got %+v", vs)
	}
	var in struct{ Key testkit.HexBytes }
	vs[0].Decode(t, &in)
	if b := vs[0].Bytes(t); string(in.Key) != "\x00\xff" || string(b) != "\x01\x02" {
		t.Errorf("the input is %x, the encoding %x", in.Key, b)
	}
}
