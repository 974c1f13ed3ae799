package archive

import (
	"github.com/klauspost/compress/zstd"
)

const (
	// A block of a frame of Zstandard takes leastFrameBlock bytes or more, and has at most mostFrameBlock.
	leastFrameBlock = 3
	mostFrameBlock  = 128 << 10
)

// newFast returns what compresses segments when they are stored.
func newFast() (*zstd.Encoder, error) { return newEncoder(zstd.WithEncoderLevel(zstd.SpeedFastest)) }

// newEncoder returns what compresses all else. A frame has no checksum of its own: the object that it is in has one of it.
func newEncoder(more ...zstd.EOption) (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, append(more, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false))...)
}

// newDecoder returns what decode decodes with; the caller closes it.
func newDecoder() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true))
}

// decode decodes a frame of Zstandard that has at most so many bytes, whatever it says itself: with more of them the error is
// zstd.ErrDecoderSizeExceeded, and no more memory is taken than for these. z is of newDecoder.
func decode(z *zstd.Decoder, frame []byte, most int64) ([]byte, error) {
	most = min(most, (int64(len(frame))/leastFrameBlock+1)*mostFrameBlock)
	var head zstd.Header
	if err := head.Decode(frame); err != nil {
		return nil, err
	}
	if head.HasFCS {
		if head.FrameContentSize > uint64(most) {
			return nil, zstd.ErrDecoderSizeExceeded
		}
		most = int64(head.FrameContentSize)
	}
	return z.DecodeAll(frame, make([]byte, 0, most))
}
