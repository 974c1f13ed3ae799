package archive

import (
	"errors"
	"hash/crc32"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/archive/bucket/buckettest"
	"github.com/greenroomdb/greenroom/kv"
)

// frames returns frames of Zstandard that take more memory than an object of their size is to take: one that claims to have that much, and one that has
// it without saying so.
func frames(t *testing.T, size int) map[string][]byte {
	t.Helper()
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	whole := z.EncodeAll(make([]byte, size), nil)
	var out strings.Builder
	z.Reset(&out)
	for range size / (1 << 20) {
		if _, err := z.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	// A frame whose header says that 1<<39 bytes follow in blocks, of which there is one.
	claims := []byte{0x28, 0xb5, 0x2f, 0xfd, 0xc0, 0x50, 0, 0, 0, 0, 0x80, 0, 0, 0, 1, 0, 0}
	return map[string][]byte{"whole": whole, "without its size": []byte(out.String()), "claims": claims}
}

// allocated returns how many bytes fn takes of memory, freed or not.
func allocated(fn func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestHostileFrames tests that a frame which is larger than its index, or the limit of a list, says is damage of the object, and isn't unpacked.
func TestHostileFrames(t *testing.T) {
	const size, most = 256 << 20, 32 << 20
	for name, frame := range frames(t, size) {
		b := buckettest.NewMemory()
		segment := newBuilder(unknown)
		segment.first, segment.last, segment.times = 10, 12, []recordTime{{10, 1}}
		segment.blocks = []block{{first: rest, last: rest, size: len(frame), unpacked: 1000, crc: crc32.Checksum(frame, castagnoli)}}
		object := append(appendHeader(nil, segment.index.append(nil)), frame...)
		list := append([]byte(baseMagic), 0, 0, 0, 0)
		list = append(list, frame...)
		putSum(list[len(baseMagic):], list[len(baseMagic)+4:])
		for object, data := range map[string][]byte{firstName(1, 10): object, baseName(1, 10): list} {
			if err := bucket.PutBytes(t.Context(), b, object, data, bucket.Once); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		read := func() { _, err = joined(t.Context(), b, []numbered{{name: firstName(1, 10)}}) }
		if n := allocated(read); n > most || !errors.Is(err, kv.ErrCorrupt) || !strings.Contains(err.Error(), firstName(1, 10)) {
			t.Errorf("%s: a segment: %d bytes were taken; %v", name, n, err)
		}
		if name != "claims" { // a list may be that large
			continue
		}
		read = func() { _, err = readBase(t.Context(), b, baseName(1, 10)) }
		if n := allocated(read); n > most || !errors.Is(err, kv.ErrCorrupt) || !strings.Contains(err.Error(), baseName(1, 10)) {
			t.Errorf("%s: a base: %d bytes were taken; %v", name, n, err)
		}
	}
}
