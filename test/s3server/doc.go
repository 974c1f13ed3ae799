// Package s3server has tests alone: of packages archive/bucket/s3 and archive on an S3 server of another project.
package s3server
