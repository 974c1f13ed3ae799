package sealed

import (
	"bytes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"filippo.io/age"
	"golang.org/x/crypto/chacha20poly1305"
)

// The payload of a file of age: chunks of plain text, each with a tag behind it. All are full but the last one, which is empty only if
// the file is.
const (
	chunkSize  = 64 << 10
	tagSize    = chacha20poly1305.Overhead
	sealedSize = chunkSize + tagSize
	nonceSize  = 16 // of the payload, between header and chunks
)

// chunks is how many chunks a plain text has.
func chunks(plain int64) int64 { return max(1, (plain+chunkSize-1)/chunkSize) }

// payload is how long the chunks of a plain text are together.
func payload(plain int64) int64 { return plain + chunks(plain)*tagSize }

// A file is the sealed form of a body, which can be read at any offset: each chunk is encrypted when it is read. The other way would be a
// temporary file, which takes as much disk as the object is long, on a host that may have none left. age itself writes from front to
// back under a key that it throws away. So age writes the header, and the chunks are sealed here as its specification says.
//
// Each chunk has a nonce of its own, which is safe once. If the body were another one the second time, two texts would be sealed under one
// nonce; the tags are kept to notice that before the second one is given out.
type file struct {
	head []byte // header and nonce
	body *io.SectionReader
	aead cipher.AEAD

	mu    sync.Mutex
	chunk int64           // +checklocks:mu — the one in buf, -1 for none
	buf   []byte          // +checklocks:mu
	tags  [][tagSize]byte // +checklocks:mu — by chunk, zero for those that weren't read yet
}

// seal returns the sealed form of body as the object name.
func seal(name string, body *io.SectionReader, recipients []age.Recipient) (*file, error) {
	a := &all{recipients: recipients, name: name}
	var head bytes.Buffer
	if _, err := age.Encrypt(&head, a); err != nil { // it writes the header and the nonce
		return nil, err
	}
	nonce := head.Bytes()[head.Len()-nonceSize:]
	key, err := hkdf.Key(sha256.New, a.fileKey, nonce, "payload", chacha20poly1305.KeySize)
	if err != nil {
		return nil, err
	}
	aead, err := chacha20poly1305.New(key)
	if err != nil {
		return nil, err
	}
	return &file{
		head: head.Bytes(), body: body, aead: aead,
		chunk: -1, buf: make([]byte, 0, sealedSize), tags: make([][tagSize]byte, chunks(body.Size())),
	}, nil
}

// size is how long the sealed form is.
func (f *file) size() int64 { return int64(len(f.head)) + payload(f.body.Size()) }

// ReadAt reads the sealed form. It is safe for concurrent use.
func (f *file) ReadAt(p []byte, offset int64) (n int, err error) {
	if offset < 0 {
		return 0, fmt.Errorf("sealed: the offset %d is negative", offset)
	}
	if offset < int64(len(f.head)) {
		n = copy(p, f.head[offset:])
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for n < len(p) {
		at := offset + int64(n) - int64(len(f.head))
		if at >= payload(f.body.Size()) {
			return n, io.EOF
		}
		if err := f.fill(at / sealedSize); err != nil {
			return n, err
		}
		n += copy(p[n:], f.buf[at%sealedSize:])
	}
	return n, nil
}

// fill seals a chunk into buf.
//
// +checklocks:f.mu
func (f *file) fill(chunk int64) error {
	if f.chunk == chunk {
		return nil
	}
	f.chunk = -1
	start := chunk * chunkSize
	plain := f.buf[:min(chunkSize, f.body.Size()-start)]
	if n, err := f.body.ReadAt(plain, start); n < len(plain) {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	var nonce [chacha20poly1305.NonceSize]byte
	binary.BigEndian.PutUint64(nonce[3:], uint64(chunk))
	if chunk == int64(len(f.tags))-1 {
		nonce[len(nonce)-1] = 1
	}
	f.buf = f.aead.Seal(plain[:0], nonce[:], plain, nil)
	tag := [tagSize]byte(f.buf[len(plain):])
	if first := f.tags[chunk]; first != ([tagSize]byte{}) && first != tag {
		return ErrChanged
	}
	f.chunk, f.tags[chunk] = chunk, tag
	return nil
}
