// Package s3fake is an S3 server within a test: it keeps its objects in memory, and breaks in the ways that a network and a
// server do. It knows as much of the protocol as package archive/bucket/s3 needs, and checks no signatures.
package s3fake

// Files, from the top down:
//
//	s3fake.go uploads.go objects.go server.go faults.go

import (
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// AccessKeyID and SecretAccessKey are the credentials that the server takes. It refuses others.
const (
	AccessKeyID     = "greenroom"
	SecretAccessKey = "greenroom-secret"
)

// Start starts a server until the test ends. It returns the URL of a prefix of its bucket, with the endpoint and the region as parameters, and
// what breaks the server, which is nothing at first.
func Start(t testing.TB) (bucketURL string, f *Faults) {
	f = &Faults{}
	s := &server{faults: f, objects: map[string]object{}, uploads: map[string]*upload{}}
	f.do, f.uploads = s.do, s.countUploads
	h := httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(h.Close)
	query := url.Values{"endpoint": {h.URL}, "region": {"us-east-1"}}
	return "s3://" + Bucket + "/archive?" + query.Encode(), f
}

// serve does a request, as far as the faults let it.
func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	fault := s.faults.next(r)
	var body []byte
	var err error
	switch fault {
	case Busy:
		refuse(w, http.StatusServiceUnavailable, "SlowDown")
		return
	case CutRequest:
		// What arrived is of no use to the server.
		_, _ = io.CopyN(io.Discard, r.Body, r.ContentLength/2)
		panic(http.ErrAbortHandler)
	default:
		if body, err = io.ReadAll(r.Body); err != nil {
			panic(http.ErrAbortHandler) // the client has given up
		}
	}
	if fault == Late {
		s.faults.keep(r, body)
		panic(http.ErrAbortHandler)
	}
	answer := s.do(r, body)
	s.faults.done(r)
	deliver(w, r, answer, fault)
}

// deliver sends an answer, or what a fault leaves of it.
func deliver(w http.ResponseWriter, r *http.Request, answer *httptest.ResponseRecorder, fault Fault) {
	body := answer.Body.Bytes()
	if fault == Broken {
		refuse(w, http.StatusInternalServerError, "InternalError")
		return
	}
	if fault == CutAnswer || fault == CutBody && len(body) == 0 {
		panic(http.ErrAbortHandler)
	}
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	if fault == Short {
		body = body[:len(body)/2]
	}
	if r.Method != http.MethodHead {
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	}
	w.WriteHeader(answer.Code)
	// The client is told of an error here by the connection.
	switch fault {
	case CutBody:
		_, _ = w.Write(body[:len(body)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case Trickle:
		for len(body) > 0 {
			n := max(1, len(body)/50)
			_, _ = w.Write(body[:n])
			_ = http.NewResponseController(w).Flush()
			body = body[n:]
		}
	default:
		_, _ = w.Write(body)
	}
}

// do does a request, one at a time.
func (s *server) do(r *http.Request, body []byte) *httptest.ResponseRecorder {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := httptest.NewRecorder()
	name, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	query := r.URL.Query()
	switch {
	case !strings.Contains(r.Header.Get("Authorization"), "Credential="+AccessKeyID+"/"):
		if s.faults.lacks(Forbidden) {
			refuse(w, http.StatusNotFound, "XAdminUserNotFound")
		} else {
			refuse(w, http.StatusForbidden, "InvalidAccessKeyId")
		}
	case name != Bucket:
		refuse(w, http.StatusNotFound, "NoSuchBucket")
	case key == "" && r.Method == http.MethodGet && query.Has("list-type"):
		s.list(w, query)
	case key == "" && r.Method == http.MethodGet && query.Has("location"):
		write(w, http.StatusOK, struct {
			XMLName xml.Name `xml:"LocationConstraint"`
		}{})
	case key == "":
		refuse(w, http.StatusNotImplemented, "NotImplemented")
	case query.Has("uploads") || query.Has("uploadId"):
		s.upload(w, r, key, body)
	default:
		s.object(w, r, key, body)
	}
	return w
}
