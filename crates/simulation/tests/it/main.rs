//! The engine under every kind of trouble, for a few seeds; many more are run by the program.

mod every_point;
mod planted;
mod seeds;
