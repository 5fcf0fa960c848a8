"""Policies: kernels, retests, bisections and profiles that are worth machine time; recipients."""
