package persist

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"unicode/utf8"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
)

// tokenBytes is how many random bytes a token is made of; maxToken bounds one that was
// made elsewhere.
const (
	tokenBytes = 32
	maxToken   = 1024
)

// A Token is the secret that opens the inspector of an actor. It prints as a word that
// gives nothing away, in logs as well: the secret is what Reveal returns.
type Token struct{ secret string }

// OpenToken returns the actor's token. The first time it makes one, of 32 random bytes,
// and stores it durably. ErrToken says that what is stored is empty, too long or no
// UTF-8, and could be guessed or not be sent.
func OpenToken(ctx context.Context, actor *actorstore.Actor) (*Token, error) {
	key := actorstore.AppendInspector(nil)
	stored, err := actor.Get(ctx, key, nil)
	if errors.Is(err, actorstore.ErrNotFound) {
		// Another goroutine may make one too: the first commit stores its token.
		var b batch.Batch
		b.Late(func(b *batch.Batch) (err error) {
			if stored, err = actor.Get(ctx, key, nil); errors.Is(err, actorstore.ErrNotFound) {
				stored, err = newToken(), nil
				b.PutPrior(key, stored, batch.Absent)
			}
			return err
		})
		err = actor.Commit(ctx, &b)
	}
	if err != nil {
		return nil, err
	}
	if len(stored) == 0 || len(stored) > maxToken || !utf8.Valid(stored) {
		return nil, fmt.Errorf("%w: %d bytes: %w", ErrToken, len(stored), actorstore.ErrCorrupt)
	}
	return &Token{string(stored)}, nil
}

// newToken returns a token as it is stored: base64url without padding, 43 characters.
func newToken() []byte {
	var b [tokenBytes]byte
	rand.Read(b[:]) // never fails: the documentation of crypto/rand
	return base64.RawURLEncoding.AppendEncode(nil, b[:])
}

// Check says whether what was presented is the token. How long it takes tells nothing
// but the length, which is no secret.
func (t *Token) Check(presented string) bool {
	return subtle.ConstantTimeCompare([]byte(presented), []byte(t.secret)) == 1
}

// CheckBearer is Check for the value of an Authorization header: the scheme Bearer, in
// any case, and the token.
//
// https://www.rfc-editor.org/rfc/rfc6750#section-2.1
func (t *Token) CheckBearer(header string) bool {
	scheme, presented, ok := strings.Cut(header, " ")
	return ok && strings.EqualFold(scheme, "Bearer") && t.Check(strings.TrimLeft(presented, " "))
}

// Reveal returns the secret.
func (t *Token) Reveal() string { return t.secret }

// String returns a word that is the same for all tokens.
func (t *Token) String() string { return "persist.Token" }

// GoString is String.
func (t *Token) GoString() string { return t.String() }

// LogValue is String.
func (t *Token) LogValue() slog.Value { return slog.StringValue(t.String()) }
