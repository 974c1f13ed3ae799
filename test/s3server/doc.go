// Package s3server has tests alone: of package archive/bucket/s3 on an S3 server of another project.
package s3server
