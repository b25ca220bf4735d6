//! Every screen, light and dark, on a desk and on a phone. The pictures are for people; what the
//! tests hold is that no screen is wider than a phone, and that each can be read by a program.
