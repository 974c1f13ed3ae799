package inspector

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/admin"
)

// Bounds of sessions.
const (
	// maxSessions bounds how many there are: another one ends the one that was used the longest ago.
	maxSessions = 256
	// idleTime is how long one lasts that isn't used.
	idleTime = 12 * time.Hour
)

// cookieName returns the name of the cookie with the key of a session. It has the port in it: a browser sends the cookies of a host to each of its ports, and a
// page at another port would replace one of the same name.
func cookieName(r *http.Request) string {
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		return "greenroom-" + port
	}
	return "greenroom"
}

// A session is a visitor with a token.
type session struct {
	client *admin.Client
	role   admin.Role
	host   bool      // the process runs the actors
	used   time.Time // guarded by sessions.mu

	ctx context.Context // ends with the session
	end context.CancelFunc
}

// mayWrite reports whether the API lets the visitor change anything.
func (s *session) mayWrite() bool { return s.role == admin.RoleWrite }

// sessions are the visitors that are logged in. All methods are safe for concurrent use.
type sessions struct {
	dial func(ctx context.Context, secret string) (*admin.Client, error)
	now  func() time.Time

	mu  sync.Mutex
	all map[[sha256.Size]byte]*session // by the hash of what the visitor sends  +checklocks:mu
}

// open returns a new session with a secret, and the key that the visitor sends from now on.
func (ss *sessions) open(ctx context.Context, secret string) (key string, err error) {
	key = rand.Text()
	_, err = ss.add(ctx, sha256.Sum256([]byte("cookie "+key)), secret)
	return key, err
}

// add makes a session with a secret, unless there is one by now, or the API refuses it.
func (ss *sessions) add(ctx context.Context, hash [sha256.Size]byte, secret string) (*session, error) {
	c, err := ss.dial(ctx, secret)
	if err != nil {
		return nil, err
	}
	process, err := c.Process(ctx)
	if err != nil {
		c.Close()
		return nil, err
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.all == nil {
		ss.all = map[[sha256.Size]byte]*session{}
	}
	if s := ss.all[hash]; s != nil { // of another request with the secret, at the same time
		c.Close()
		s.used = ss.now()
		return s, nil
	}
	ss.expire()
	s := &session{client: c, role: process.Role, host: process.Host, used: ss.now()}
	s.ctx, s.end = context.WithCancel(context.WithoutCancel(ctx))
	ss.all[hash] = s
	return s, nil
}

// expire ends sessions that were not used for long, and one more if there are as many as there may be.
//
// +checklocks:ss.mu
func (ss *sessions) expire() {
	var oldest [sha256.Size]byte
	for hash, s := range ss.all {
		if ss.now().Sub(s.used) > idleTime {
			ss.end(hash)
		} else if o := ss.all[oldest]; o == nil || s.used.Before(o.used) {
			oldest = hash
		}
	}
	if len(ss.all) >= maxSessions {
		ss.end(oldest)
	}
}

// end ends a session, if there is one.
//
// +checklocks:ss.mu
func (ss *sessions) end(hash [sha256.Size]byte) {
	if s := ss.all[hash]; s != nil {
		s.end()
		s.client.Close()
		delete(ss.all, hash)
	}
}

// of returns the session of a request, nil if it has none. A request that bears a secret gets one.
func (ss *sessions) of(r *http.Request) (*session, error) {
	hash, secret := hashOf(r), secretOf(r)
	ss.mu.Lock()
	s := ss.all[hash]
	if s != nil && ss.now().Sub(s.used) > idleTime {
		ss.end(hash)
		s = nil
	}
	if s != nil {
		s.used = ss.now()
	}
	ss.mu.Unlock()
	if s == nil && secret != "" {
		return ss.add(r.Context(), hash, secret)
	}
	return s, nil
}

// forget ends the session of a request.
func (ss *sessions) forget(r *http.Request) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.end(hashOf(r))
}

// close ends all sessions.
func (ss *sessions) close() {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for hash := range ss.all {
		ss.end(hash)
	}
}

// secretOf returns the secret that a request bears, "" for none.
func secretOf(r *http.Request) string {
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(secret)
}

// hashOf returns the hash of the secret or the cookie of a request. Hashes are compared, and not keys, so that the time says nothing of a key.
func hashOf(r *http.Request) [sha256.Size]byte {
	if secret := secretOf(r); secret != "" {
		return sha256.Sum256([]byte("bearer " + secret))
	}
	key := ""
	if c, err := r.Cookie(cookieName(r)); err == nil {
		key = c.Value
	}
	return sha256.Sum256([]byte("cookie " + key))
}
