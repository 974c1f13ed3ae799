package s3fake

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// etagOf is the ETag of some bytes.
func etagOf(data []byte) string {
	sum := md5.Sum(data)
	return `"` + hex.EncodeToString(sum[:]) + `"`
}

// metadataOf returns the headers of a request that an object is stored with.
func (s *server) metadataOf(r *http.Request) http.Header {
	metadata := http.Header{}
	if s.faults.lacks(Metadata) {
		return metadata
	}
	for name, values := range r.Header {
		if strings.HasPrefix(name, "X-Amz-Meta-") {
			metadata[name] = values
		}
	}
	return metadata
}

// refused refuses a request whose body is not what its signature says, or whose condition doesn't hold.
//
// +checklocks:s.mu
func (s *server) refused(w http.ResponseWriter, r *http.Request, key string, body []byte, lack Lack) bool {
	sum := sha256.Sum256(body)
	if signed := r.Header.Get("X-Amz-Content-Sha256"); signed != hex.EncodeToString(sum[:]) {
		refuse(w, http.StatusBadRequest, "XAmzContentSHA256Mismatch")
		return true
	}
	if r.Header.Get("If-None-Match") == "" || s.faults.lacks(lack) {
		return false
	}
	if s.faults.lacks(Implementation) {
		refuse(w, http.StatusNotImplemented, "NotImplemented")
		return true
	}
	if _, ok := s.objects[key]; ok {
		refuse(w, http.StatusPreconditionFailed, "PreconditionFailed")
		return true
	}
	return false
}

// object does what is asked of one object.
//
// +checklocks:s.mu
func (s *server) object(w http.ResponseWriter, r *http.Request, key string, body []byte) {
	o, ok := s.objects[key]
	switch {
	case r.Method == http.MethodPut:
		if s.refused(w, r, key, body, Conditions) {
			return
		}
		o = object{body, etagOf(body), s.metadataOf(r), time.Now().UTC()}
		s.objects[key] = o
		w.Header().Set("ETag", o.etag)
	case r.Method == http.MethodDelete:
		delete(s.objects, key)
		w.WriteHeader(http.StatusNoContent)
	case !ok && r.Method == http.MethodHead:
		w.WriteHeader(http.StatusNotFound)
	case !ok:
		refuse(w, http.StatusNotFound, "NoSuchKey")
	case r.Header.Get("If-Match") != "" && r.Header.Get("If-Match") != o.etag:
		refuse(w, http.StatusPreconditionFailed, "PreconditionFailed")
	default:
		s.get(w, r, o)
	}
}

// get answers with an object, or a range of it.
func (s *server) get(w http.ResponseWriter, r *http.Request, o object) {
	h := w.Header()
	for name, values := range o.metadata {
		h[name] = values
	}
	h.Set("ETag", o.etag)
	h.Set("Last-Modified", o.modified.Format(http.TimeFormat))
	data, status := o.data, http.StatusOK
	if field := r.Header.Get("Range"); field != "" && !s.faults.lacks(Ranges) {
		from, to, _ := strings.Cut(strings.TrimPrefix(field, "bytes="), "-")
		first, err := strconv.Atoi(from)
		last := len(data) - 1
		if to != "" && err == nil {
			var end int
			end, err = strconv.Atoi(to)
			last = min(last, end)
		}
		if err != nil || first >= len(data) {
			refuse(w, http.StatusRequestedRangeNotSatisfiable, "InvalidRange")
			return
		}
		h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, len(data)))
		data, status = data[first:last+1], http.StatusPartialContent
	}
	h.Set("Content-Length", fmt.Sprint(len(data)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(data) // into memory
	}
}

// maxPage is how many objects a page of a list has: few, so that tests see several.
const maxPage = 40

// listed is a page of a list.
type listed struct {
	XMLName               xml.Name `xml:"ListBucketResult"`
	Name, Prefix          string
	EncodingType          string
	KeyCount, MaxKeys     int
	IsTruncated           bool
	NextContinuationToken string `xml:",omitempty"`
	Contents              []content
}

// content is an object in a list.
type content struct {
	Key, LastModified, ETag string
	Size                    int
	StorageClass            string
}

// list answers with a page of the objects.
//
// +checklocks:s.mu
func (s *server) list(w http.ResponseWriter, query url.Values) {
	page := listed{Name: Bucket, Prefix: query.Get("prefix"), EncodingType: "url", MaxKeys: maxPage}
	if n, err := strconv.Atoi(query.Get("max-keys")); err == nil {
		page.MaxKeys = min(n, maxPage)
	}
	after := max(query.Get("start-after"), query.Get("continuation-token"))
	var keys []string
	for key := range s.objects {
		if strings.HasPrefix(key, page.Prefix) && key > after {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	if len(keys) > page.MaxKeys {
		keys = keys[:page.MaxKeys]
		page.IsTruncated, page.NextContinuationToken = true, keys[len(keys)-1]
	}
	for _, key := range keys {
		o := s.objects[key]
		page.Contents = append(page.Contents, content{url.QueryEscape(key), o.modified.Format(time.RFC3339Nano), o.etag, len(o.data), "STANDARD"})
	}
	page.KeyCount = len(keys)
	write(w, http.StatusOK, page)
}
