package pgkv

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/kv"
)

// Versions count transactions, and a version that a reader may have seen is never given
// out again. Others see a transaction before it is on stable storage, and on standbys:
// the server may crash, or be replaced, and know nothing of it. So versions are reserved:
// the row of the table version holds a number V that is on stable storage, and up to
// V + versionGap versions are given out, by the row of the table counter. That table is
// unlogged, so that it is empty whenever something may have been lost: PostgreSQL empties
// such tables in a crash recovery, and a standby doesn't replicate them. A host that finds
// it empty raises V by a gap, waits until that is on stable storage, and only then makes
// the row of the counter, from V on.
// https://www.postgresql.org/docs/15/sql-createtable.html#SQL-CREATETABLE-UNLOGGED
//
// A server that loses what it acknowledged as durable, for example because commits didn't
// wait for its standbys, may lose V with it.

// versionGap is how many versions are reserved at a time. The tables of version 3 begin
// with it, too.
const versionGap = 1 << 20

// errNoVersion says that the counter must be made, or raised. Nothing was applied.
var errNoVersion = errors.New("no version is reserved")

// reserve sees to it that there are versions, over a connection without a transaction.
func (db *DB) reserve(outer context.Context, c *conn) error {
	ctx, cancel := context.WithTimeout(outer, db.opts.Timeout)
	defer cancel()
	db.trips.Add(2)
	c.warned = false
	base := int64(0)
	err := c.query(ctx, c.sql.raise, nil, func(col [][]byte) {
		if len(col) == 1 && len(col[0]) == 8 {
			base = int64(binary.BigEndian.Uint64(col[0]))
		}
	})
	switch {
	case err != nil:
	case base == 0:
		err = fmt.Errorf("%w: the store has no version", kv.ErrCorrupt)
	case c.warned:
		// It was told not to wait for the standbys.
		c.bad = true
		err = orUnknown(nil)
	default:
		// It does nothing if others have raised it meanwhile: perhaps there was another
		// crash, and they have given out what is above already. Their number may not be
		// on stable storage yet, so they are the ones to use it.
		err = c.exec(ctx, c.sql.reserve, int8Param(base))
	}
	return verdict(outer, c, err)
}
