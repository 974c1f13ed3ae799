package front

import (
	"encoding/json"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/coder/websocket"
	"github.com/greenroomdb/greenroom/host"
)

// A media is one of the forms that values have on the wire.
type media int

const (
	mediaJSON media = iota
	mediaCBOR
)

// String returns the media type.
func (m media) String() string {
	if m == mediaCBOR {
		return "application/cbor"
	}
	return "application/json"
}

// encode returns v in this form. A value in it is converted.
func (m media) encode(v any) ([]byte, error) {
	if m == mediaCBOR {
		return host.Encode(v)
	}
	return json.Marshal(v)
}

// decode decodes into v what has this form.
func (m media) decode(b []byte, v any) error {
	if m == mediaCBOR {
		return host.Raw(b).Decode(v)
	}
	return json.Unmarshal(b, v)
}

// parseMedia reads a media type.
func parseMedia(text string) (m media, ok bool) {
	kind, _, err := mime.ParseMediaType(text)
	switch {
	case err != nil:
		return 0, false
	case kind == "application/json":
		return mediaJSON, true
	case kind == "application/cbor":
		return mediaCBOR, true
	}
	return 0, false
}

// plainBody refuses a body that is compressed, or coded in another way.
func plainBody(r *http.Request) error {
	for _, coding := range r.Header.Values("Content-Encoding") {
		if coding = strings.TrimSpace(coding); coding != "" && !strings.EqualFold(coding, "identity") {
			return errCoding
		}
	}
	return nil
}

// contentType returns the form of a body, JSON if it isn't said of an empty one. What a
// form of a page sends without asking the server first is refused.
func contentType(r *http.Request) (media, error) {
	if err := plainBody(r); err != nil {
		return mediaJSON, err
	}
	text := r.Header.Get("Content-Type")
	if text == "" && r.ContentLength == 0 {
		return mediaJSON, nil
	}
	m, ok := parseMedia(text)
	if !ok {
		return mediaJSON, errMedia
	}
	return m, nil
}

// accepted returns the form in which a client wants the result: of what it takes the one
// with the greatest weight, or else the first; that of its arguments if it takes anything.
func accepted(r *http.Request, in media) (media, error) {
	text := strings.Join(r.Header.Values("Accept"), ",")
	if strings.TrimSpace(text) == "" {
		return in, nil
	}
	best, weight := in, 0.0
	for _, part := range strings.Split(text, ",") {
		kind, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		q := 1.0
		if text, ok := params["q"]; ok {
			if q, err = strconv.ParseFloat(text, 64); err != nil {
				continue
			}
		}
		m, ok := parseMedia(kind)
		if kind == "*/*" || kind == "application/*" {
			m, ok = in, true
		}
		if ok && q > weight {
			best, weight = m, q
		}
	}
	if weight == 0 {
		return in, errAccept
	}
	return best, nil
}

// frame returns the type of frames that messages of a form are in.
func (m media) frame() websocket.MessageType {
	if m == mediaCBOR {
		return websocket.MessageBinary
	}
	return websocket.MessageText
}
