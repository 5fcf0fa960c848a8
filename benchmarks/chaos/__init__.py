"""Kills at every step of a night, a confirmation and a bisection, in a simulated lab.

Nothing of the product knows of it: the processes of a service are started with listeners of this
package's own, which see its steps and make them fail.
"""
