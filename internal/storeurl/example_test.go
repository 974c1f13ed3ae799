package storeurl_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/storeurl"
	"github.com/greenroomdb/greenroom/kv"
)

func ExampleParse() {
	for _, url := range []string{"data", "pebble:data", "mem:", "peble:data"} {
		kind, address, err := storeurl.Parse(url)
		fmt.Printf("%q %q %t\n", kind, address, errors.Is(err, storeurl.ErrURL))
	}
	// Output:
	// "pebble" "data" false
	// "pebble" "data" false
	// "mem" "" false
	// "" "" true
}

func ExampleOpen() {
	ctx := context.Background()
	_, err := storeurl.Open(ctx, "pebble:/nowhere/at/all", nil)
	fmt.Println(errors.Is(err, kv.ErrNoStore)) // nothing is created unless asked for

	store, err := storeurl.Open(ctx, "mem:", &storeurl.Options{Create: true})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close() // the engine with it
	lobby, err := store.Named(ctx, "lobby", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer lobby.Close()
	if err := lobby.User().Put(ctx, []byte("greeting"), []byte("good evening")); err != nil {
		log.Fatal(err)
	}
	value, err := lobby.Get(ctx, actorstore.UserKey([]byte("greeting")), nil)
	fmt.Printf("%s %v\n", value, err)
	// Output:
	// true
	// good evening <nil>
}
