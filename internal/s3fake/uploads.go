package s3fake

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// uploadName is what is said of an upload.
type uploadName struct {
	XMLName               xml.Name
	Bucket, Key, UploadId string
	ETag                  string `xml:",omitempty"`
}

// upload does what is asked of an upload in parts. One that is over is forgotten, as servers do.
//
// +checklocks:s.mu
func (s *server) upload(w http.ResponseWriter, r *http.Request, key string, body []byte) {
	query := r.URL.Query()
	if query.Has("uploads") && r.Method == http.MethodPost {
		s.started++
		id := fmt.Sprint("upload-", s.started)
		s.uploads[id] = &upload{key, map[int][]byte{}, s.metadataOf(r)}
		write(w, http.StatusOK, uploadName{XMLName: xml.Name{Local: "InitiateMultipartUploadResult"}, Bucket: Bucket, Key: key, UploadId: id})
		return
	}
	id := query.Get("uploadId")
	u := s.uploads[id]
	number, err := strconv.Atoi(query.Get("partNumber"))
	switch {
	case u == nil || u.key != key:
		refuse(w, http.StatusNotFound, "NoSuchUpload")
	case r.Method == http.MethodDelete:
		delete(s.uploads, id)
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodPut && err == nil:
		if !s.refused(w, r, key, body, 0) {
			u.parts[number] = body
			w.Header().Set("ETag", etagOf(body))
		}
	case r.Method == http.MethodPost && s.faults.spend(Completion):
		delete(s.uploads, id)
		write(w, http.StatusOK, completed(key, ""))
	case r.Method == http.MethodPost:
		if !s.refused(w, r, key, body, Conditions|PartsConditions) {
			s.complete(w, u, id, body)
		}
	default:
		refuse(w, http.StatusNotImplemented, "NotImplemented")
	}
}

// complete makes the object of an upload's parts.
//
// +checklocks:s.mu
func (s *server) complete(w http.ResponseWriter, u *upload, id string, body []byte) {
	var list struct {
		Part []struct {
			PartNumber int
			ETag       string
		}
	}
	if err := xml.Unmarshal(body, &list); err != nil {
		refuse(w, http.StatusBadRequest, "MalformedXML")
		return
	}
	var data []byte
	for i, p := range list.Part {
		part, ok := u.parts[p.PartNumber]
		if !ok || `"`+p.ETag+`"` != etagOf(part) && p.ETag != etagOf(part) {
			refuse(w, http.StatusBadRequest, "InvalidPart")
			return
		}
		if len(part) < 5<<20 && i < len(list.Part)-1 {
			refuse(w, http.StatusBadRequest, "EntityTooSmall")
			return
		}
		data = append(data, part...)
	}
	o := object{data, fmt.Sprintf(`"%x-%d"`, len(data), len(list.Part)), u.metadata, time.Now().UTC()}
	s.objects[u.key] = o
	delete(s.uploads, id)
	write(w, http.StatusOK, completed(u.key, o.etag))
}

// completed is what is said of an upload that is complete.
func completed(key, etag string) uploadName {
	return uploadName{XMLName: xml.Name{Local: "CompleteMultipartUploadResult"}, Bucket: Bucket, Key: key, ETag: etag}
}

// countUploads returns how many uploads aren't over.
func (s *server) countUploads() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.uploads)
}
