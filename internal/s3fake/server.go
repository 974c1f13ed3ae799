package s3fake

import (
	"encoding/xml"
	"io"
	"net/http"
	"sync"
	"time"
)

// Bucket is the name of the only bucket that there is.
const Bucket = "backups"

// server keeps the objects of one bucket.
type server struct {
	faults *Faults

	mu      sync.Mutex
	objects map[string]object  // +checklocks:mu
	uploads map[string]*upload // +checklocks:mu
	started int                // +checklocks:mu
}

// object is what is stored under a key.
type object struct {
	data     []byte
	etag     string
	metadata http.Header
	modified time.Time
}

// upload is an object whose parts come one by one.
type upload struct {
	key      string
	parts    map[int][]byte
	metadata http.Header
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, status int, code string) {
	write(w, status, struct {
		XMLName       xml.Name `xml:"Error"`
		Code, Message string
	}{Code: code, Message: "the fake says " + code})
}

// write answers with XML.
func write(w http.ResponseWriter, status int, v any) {
	data, err := xml.Marshal(v)
	if err != nil {
		panic("s3fake: " + err.Error())
	}
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, xml.Header+string(data)) // the client learns of it by the connection
}
