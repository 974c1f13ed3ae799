package admin

import (
	"net"
	"net/http"
	"os"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/remotekv"
)

// verbs are what can be done to an actor.
var verbs = []endpoint{
	PutKey, DeleteKeys, SendMessage, DeleteMessages, RedriveMessages, CancelWorkflow, RetryWorkflow, RestartWorkflow, ReplayWorkflow, DiscardConnection, Fork, Drop,
}

// routes are what can be asked for.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/process", s.process)
	mux.HandleFunc("GET /v1/engine", s.engine)
	mux.HandleFunc("GET /v1/actors/{actor}/sql", s.sql)
	mux.HandleFunc("PUT /v1/actors/{actor}/database", s.putDatabase)
	for _, v := range verbs {
		mux.HandleFunc(v.path(), func(w http.ResponseWriter, r *http.Request) { v.serve(s, w, r) })
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, &Error{Code: "not_found", Message: "there is nothing at " + r.Method + " " + r.URL.Path})
	})
	return mux
}

// A Process is what is known of a process that has a store open.
type Process struct {
	PID int `json:"pid"`
}

func (s *Server) process(w http.ResponseWriter, _ *http.Request) {
	reply(w, &Process{PID: os.Getpid()})
}

// engineProtocol is what a connection is upgraded to on which the engine is read; see package remotekv.
const engineProtocol = "greenroom-engine/1"

// engine gives a tool the engine of the store: all of it to read, and what is no actor's to write.
func (s *Server) engine(w http.ResponseWriter, r *http.Request) {
	s.upgrade(w, r, engineProtocol, func(conn net.Conn) { remotekv.Serve(s.ctx, conn, s.store.Engine(), actorstore.Outside) })
}

// upgrade has a connection speak a protocol that isn't HTTP, as long as fn runs, which closes it.
func (s *Server) upgrade(w http.ResponseWriter, r *http.Request, protocol string, fn func(net.Conn)) {
	if r.Header.Get("Upgrade") != protocol {
		w.Header().Set("Upgrade", protocol)
		refuse(w, &Error{Code: "upgrade_required", Message: "this process speaks " + protocol + ": use the same version of greenroom"})
		return
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		refuse(w, err)
		return
	}
	s.working.Go(func() {
		head := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + protocol + "\r\n\r\n"
		if _, err := conn.Write([]byte(head)); err != nil {
			_ = conn.Close() // the tool has gone
			return
		}
		fn(conn)
	})
}
