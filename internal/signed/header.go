package signed

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"io"
	"math"
	"net/http"
	"strings"

	"github.com/greenroomdb/greenroom/internal/bare"
)

// Header is the name of the header that has a signature.
const Header = "Greenroom-Signature"

// MaxHeader bounds the value of the header in bytes. Caller and Rest have about 12,150 bytes of it together.
const MaxHeader = 16 << 10

const (
	headerVersion = 1
	sessionSize   = 16
	maxHop        = math.MaxInt32
	// about is what a signature is of. A MAC of something else with the same secret has another text.
	about = "greenroom request 1"
)

// The header's value is unpadded base64url of a version (2 bytes, little-endian), a message in BARE, and the MAC of 32 bytes. A MAC is
// that of bytes that begin with about, so that no part of two requests that differ is the same:
//
//	about str, version and message data, method str, escaped path str, query str
//
// The message is: id of the secret u32, time i64 ms, session data[16], counter u64, SHA-256 of the body data[32], To data[16], Hop u32, Caller
// optional<data>, Rest data. It has the digest of the body so that a receiver needn't read the body of a request that isn't authentic.
var encoding = base64.RawURLEncoding.Strict()

// A Statement is what a request says about itself besides method, path, query and body. All of it is signed.
type Statement struct {
	To     [16]byte // id of the host that is to take the request, not zero
	Hop    int      // how often the request was forwarded, from 1 to 2³¹-1
	Caller []byte   // says which client sent it to the first host; nil for not said, which differs from empty
	Rest   []byte   // what else the sender says; nil and empty are the same
}

// A message is what the header says, without the MAC.
type message struct {
	id        uint32
	sent      int64 // ms
	session   [sessionSize]byte
	counter   uint64
	sum       [sha256.Size]byte // of the body
	statement Statement

	signed []byte // the bytes of all that, when it came in a header
	mac    []byte // likewise
}

func (m *message) append(dst []byte) []byte {
	dst = bare.AppendI64(bare.AppendU32(bare.AppendVersion(dst, headerVersion), m.id), m.sent)
	dst = bare.AppendFixed(bare.AppendU64(bare.AppendFixed(dst, m.session[:]), m.counter), m.sum[:])
	s := &m.statement
	dst = bare.AppendBool(bare.AppendU32(bare.AppendFixed(dst, s.To[:]), uint32(s.Hop)), s.Caller != nil)
	if s.Caller != nil {
		dst = bare.AppendData(dst, s.Caller)
	}
	return bare.AppendData(dst, s.Rest)
}

// header returns the header's value.
func (m *message) header(by *secret, r *http.Request) (string, error) {
	if len(m.statement.Caller) > MaxHeader || len(m.statement.Rest) > MaxHeader {
		return "", ErrTooLarge
	}
	dst := m.append(make([]byte, 0, 128+len(m.statement.Caller)+len(m.statement.Rest)))
	if encoding.EncodedLen(len(dst)+sha256.Size) > MaxHeader {
		return "", ErrTooLarge
	}
	return encoding.EncodeToString(appendMAC(dst, by, dst, r)), nil
}

// parse reads the values of the header, of which there must be one. What it returns is not authentic yet.
func parse(values []string) (*message, error) {
	// The decoder skips line ends.
	if len(values) != 1 || len(values[0]) > MaxHeader || strings.ContainsAny(values[0], "\r\n") {
		return nil, ErrSignature
	}
	b, err := encoding.DecodeString(values[0])
	if err != nil || len(b) < sha256.Size {
		return nil, ErrSignature
	}
	end := len(b) - sha256.Size
	m := &message{signed: b[:end:end], mac: b[end:]}
	version, rest, err := bare.Version(m.signed)
	if err != nil || version != headerVersion {
		return nil, ErrSignature
	}
	rd := bare.NewReader(rest)
	m.id, m.sent = rd.U32(), rd.I64()
	copy(m.session[:], rd.Fixed(sessionSize))
	m.counter = rd.U64()
	copy(m.sum[:], rd.Fixed(len(m.sum)))
	s := &m.statement
	copy(s.To[:], rd.Fixed(len(s.To)))
	hop := rd.U32()
	if rd.Bool() {
		s.Caller = rd.DataCopy()
	}
	if rest := rd.DataCopy(); len(rest) > 0 {
		s.Rest = rest
	}
	if rd.Done() != nil || hop < 1 || hop > maxHop {
		return nil, ErrSignature
	}
	s.Hop = int(hop)
	return m, nil
}

// authentic reports whether the MAC that came is that of the message and the request.
func (m *message) authentic(by *secret, r *http.Request) bool {
	if r.URL == nil {
		return false
	}
	return hmac.Equal(m.mac, appendMAC(nil, by, m.signed, r))
}

// appendMAC appends the MAC of a message and its request.
func appendMAC(dst []byte, by *secret, signed []byte, r *http.Request) []byte {
	method, path := r.Method, r.URL.EscapedPath()
	if method == "" {
		method = http.MethodGet // as a client sends it
	}
	if path == "" {
		path = "/" // likewise
	}
	b := make([]byte, 0, 128+len(signed)+len(path)+len(r.URL.RawQuery))
	b = bare.AppendData(bare.AppendString(b, about), signed)
	b = bare.AppendString(bare.AppendString(bare.AppendString(b, method), path), r.URL.RawQuery)
	h := hmac.New(sha256.New, by.data[:])
	_, _ = h.Write(b) // it never fails
	return h.Sum(dst)
}

// A checkedBody is a body that ends with ErrSignature if it isn't the one that was signed.
type checkedBody struct {
	io.ReadCloser
	sum  [sha256.Size]byte
	seen hash.Hash
}

func (b *checkedBody) Read(p []byte) (n int, err error) {
	n, err = b.ReadCloser.Read(p)
	_, _ = b.seen.Write(p[:n]) // it never fails
	if err == io.EOF && !bytes.Equal(b.seen.Sum(nil), b.sum[:]) {
		return n, ErrSignature
	}
	return n, err
}
