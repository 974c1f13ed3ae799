package admin

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
)

// ParseBytes reads text as tools write keys and ids: the bytes of the text, or hex: and bytes in hexadecimal. what says in the error what
// they are.
func ParseBytes(text, what string) ([]byte, error) {
	digits, ok := strings.CutPrefix(text, "hex:")
	if !ok {
		return []byte(text), nil
	}
	b, err := hex.DecodeString(digits)
	if err != nil {
		return nil, &Error{Code: "invalid", Message: fmt.Sprintf("%s: the %s has to be pairs of hexadecimal digits after hex:", text, what)}
	}
	return b, nil
}

// PutKey stores a value under a user key.
var PutKey = &Verb[PutKeyIn, None]{"keys/put", "Store a value under a user key.", putKey}

// PutKeyIn is the request of PutKey.
type PutKeyIn struct {
	Key   string `json:"key"` // as ParseBytes reads it
	Value []byte `json:"value"`
}

func putKey(ctx context.Context, a *greenroom.Actor, actor string, in *PutKeyIn) (*None, error) {
	key, err := ParseBytes(in.Key, "key")
	if err != nil {
		return nil, err
	}
	err = a.Update(ctx, func(tx *greenroom.Tx) error { return tx.Put(key, in.Value) })
	return &None{}, KeyError(actor, in.Key, err)
}

// DeleteKeys removes user keys: all of those that are named, or none if one of them isn't there; or those that begin with a prefix.
var DeleteKeys = &Verb[DeleteKeysIn, None]{"keys/delete", "Remove user keys: those that are named, those with a prefix, or all.", deleteKeys}

// DeleteKeysIn is the request of DeleteKeys.
type DeleteKeysIn struct {
	Keys   []string `json:"keys,omitempty"`   // as ParseBytes reads them; a key may be as ls shows it, too
	Prefix string   `json:"prefix,omitempty"` // as ParseBytes reads it; only without keys
	All    bool     `json:"all,omitempty"`    // all user keys; only without the others
}

func deleteKeys(ctx context.Context, a *greenroom.Actor, actor string, in *DeleteKeysIn) (*None, error) {
	prefix, err := ParseBytes(in.Prefix, "key")
	keys := make([][]byte, len(in.Keys))
	for i := 0; i < len(keys) && err == nil; i++ {
		keys[i], err = ParseBytes(in.Keys[i], "key")
	}
	switch ways := 0; {
	case err != nil:
		return nil, err
	default:
		for _, asked := range []bool{len(keys) > 0, len(prefix) > 0, in.All} {
			if asked {
				ways++
			}
		}
		if ways != 1 {
			return nil, &Error{Code: "invalid", Message: "keys, a prefix that isn't empty, or all: one of the three"}
		}
	}
	err = a.Update(ctx, func(tx *greenroom.Tx) (err error) {
		if len(keys) == 0 {
			return tx.DeleteRange(prefix, kv.PrefixEnd(prefix))
		}
		for i, key := range keys {
			if keys[i], _, err = Lookup(key, in.Keys[i], tx.Get); err != nil {
				return KeyError(actor, in.Keys[i], err)
			}
		}
		for _, key := range keys { // of which one may be there twice
			err = errors.Join(err, tx.Delete(key))
		}
		return err
	})
	return &None{}, err
}

// Lookup gets the value of key, which is written text. Without one, text may be how ls
// shows a key: that is what found is then.
func Lookup(key []byte, text string, get func([]byte) ([]byte, error)) (found, value []byte, err error) {
	value, err = get(key)
	shown, ok := strings.CutPrefix(text, "user/")
	if !ok || !errors.Is(err, actorstore.ErrNotFound) {
		return key, value, err
	}
	if unquoted, uerr := strconv.Unquote(shown); uerr == nil && shown[0] == '"' {
		shown = unquoted
	}
	if value, serr := get([]byte(shown)); serr == nil {
		return []byte(shown), value, nil
	}
	return key, nil, err
}

// KeyError says what is wrong with the key of an actor that was named text, or with its value; nil is nil.
func KeyError(actor, text string, err error) error {
	var limit *batch.LimitError
	var quota *actorstore.QuotaError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, actorstore.ErrNotFound):
		return say(err, "the actor %s has no key %s", actor, text)
	case errors.As(err, &limit):
		named := *limit // whose key has Greenroom's own byte before the user's
		named.Key, err = ParseBytes(text, "key")
		return say(errors.Join(limit, err), "%s", strings.TrimPrefix(named.Error(), "batch: "))
	case errors.As(err, &quota):
		return say(err, "the actor %s is full: it has %d bytes of %d, and would need %d", actor, quota.Used, quota.Limit, quota.Wanted)
	}
	return fmt.Errorf("key %s: %w", text, err)
}
