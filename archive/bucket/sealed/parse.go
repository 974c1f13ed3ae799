package sealed

import (
	"fmt"
	"slices"
	"strings"

	"filippo.io/age"
)

// Keys are the recipients that objects are encrypted for, and the identities that decrypt them. They don't change, and are safe for
// concurrent use. All that fmt prints of them is how many there are.
type Keys struct {
	recipients []age.Recipient
	identities []age.Identity
}

// Parse reads keys in the formats of age's own files. Each line of recipients is one, which begins with "age1": an object is encrypted
// for all of them, so that the identity of any reads it. Each line of identities is one, which begins with "AGE-SECRET-KEY-": all are
// tried. Empty lines, and those that begin with "#", are left out. Either text may be without keys. Recipients that are safe against
// quantum computers ("age1pq1") don't go together with others.
//
// An error is ErrKeys, and names the line: it has nothing of what the line says, because that may be a secret in the wrong place.
func Parse(recipients, identities string) (*Keys, error) {
	k := new(Keys)
	quantum := 0
	for n, line := range lines(recipients) {
		if strings.HasPrefix(strings.ToUpper(line), "AGE-SECRET-KEY-") {
			return nil, fmt.Errorf("%w: line %d of the recipients is an identity: it is secret, and belongs with the identities", ErrKeys, n)
		}
		rs, err := age.ParseRecipients(strings.NewReader(line))
		if err != nil {
			return nil, fmt.Errorf("%w: line %d of the recipients is not a recipient of age (age1...), or a character of it is wrong", ErrKeys, n)
		}
		if _, ok := rs[0].(*age.HybridRecipient); ok {
			quantum++
		}
		k.recipients = append(k.recipients, rs...)
	}
	if quantum != 0 && quantum != len(k.recipients) {
		return nil, fmt.Errorf("%w: some recipients are safe against quantum computers (age1pq1...) and some are not: what is encrypted for both is not", ErrKeys)
	}
	for n, line := range lines(identities) {
		// The errors of age's parser may have characters of the line in them.
		ids, err := age.ParseIdentities(strings.NewReader(line))
		if err != nil {
			return nil, fmt.Errorf("%w: line %d of the identities is not an identity of age (AGE-SECRET-KEY-...), or a character of it is wrong", ErrKeys, n)
		}
		k.identities = append(k.identities, ids...)
	}
	return k, nil
}

// lines yields the lines of a file of keys that have one, with their numbers from 1 on.
func lines(text string) func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		n := 0
		for line := range strings.Lines(text) {
			n++
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' && !yield(n, line) {
				return
			}
		}
	}
}

// String says how many keys there are.
func (k Keys) String() string {
	return fmt.Sprintf("%d recipients, %d identities", len(k.recipients), len(k.identities))
}

// GoString is String: nothing that prints Keys prints a secret.
func (k Keys) GoString() string { return k.String() }

// ForOwn returns Keys with which objects are encrypted for the identities, too, so that what writes them can read them. The error is ErrKeys
// if none of the identities has a recipient.
func (k *Keys) ForOwn() (*Keys, error) {
	own := &Keys{identities: k.identities, recipients: slices.Clone(k.recipients)}
	for _, id := range k.identities {
		switch id := id.(type) {
		case *age.X25519Identity:
			own.recipients = append(own.recipients, id.Recipient())
		case *age.HybridIdentity:
			own.recipients = append(own.recipients, id.Recipient())
		}
	}
	if len(own.recipients) == len(k.recipients) {
		return nil, fmt.Errorf("%w: there is no identity to encrypt for", ErrKeys)
	}
	return own, nil
}
