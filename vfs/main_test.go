package vfs_test

import (
	"encoding/binary"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom/internal/testkit"
)

// blobSeeds is the number of connections that have a randomblob of their own.
var blobSeeds atomic.Uint64

// randomBlob makes randomblob one of Go's on a connection: SQLite's own took a twelfth of the
// processor time of all tests here.
func randomBlob(c *sqlite3.Conn) error {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], blobSeeds.Add(1)) // two connections write different blobs
	source := rand.NewChaCha8(seed)
	return c.CreateFunction("randomblob", 1, sqlite3.INNOCUOUS, func(ctx sqlite3.Context, arg ...sqlite3.Value) {
		b := make([]byte, max(1, arg[0].Int()))
		source.Read(b)
		ctx.ResultBlob(b)
	})
}

// TestMain keeps what databases say to the default logger out of the tests' output:
// thousands of them are made to fail, or to recover.
func TestMain(m *testing.M) {
	slog.SetLogLoggerLevel(slog.LevelError + 1)
	sqlite3.AutoExtension(randomBlob)
	testkit.Main(m)
}
