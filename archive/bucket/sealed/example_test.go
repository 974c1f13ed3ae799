package sealed_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"filippo.io/age"

	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/archive/bucket/sealed"
)

// A host stores what it can't read, and the owner of the secret reads it.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	folder, err := bucket.Folder(dir)
	if err != nil {
		log.Fatal(err)
	}
	// The program age-keygen makes such a pair, too. The host has only the first half, and the second one is kept far from it.
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		log.Fatal(err)
	}
	public, secret := identity.Recipient().String(), identity.String()

	// On the host.
	keys, err := sealed.Parse(public, "")
	if err != nil {
		log.Fatal(err)
	}
	backup := sealed.New(folder, keys)
	if err := bucket.PutBytes(ctx, backup, "log/000001", []byte("what was committed"), bucket.Once); err != nil {
		log.Fatal(err)
	}
	_, _, err = backup.Get(ctx, "log/000001", 0, -1)
	fmt.Println(err, errors.Is(err, sealed.ErrNoIdentity))

	// Where it is restored.
	keys, err = sealed.Parse("", secret)
	if err != nil {
		log.Fatal(err)
	}
	data, object, err := bucket.GetBytes(ctx, sealed.New(folder, keys), "log/000001", 5, 3)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, of %d bytes\n", data, object.Size)

	// Output:
	// sealed: reading objects needs an identity true
	// was, of 18 bytes
}
