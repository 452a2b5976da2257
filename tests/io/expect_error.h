// EXPECT_ERROR(statement, code, sentence): the statement throws tessera::Error with exactly these.
#pragma once

#include <string>

#include <gtest/gtest.h>

#include <tessera/error.h>

#define EXPECT_ERROR(statement, expected_code, sentence)                                     \
  try {                                                                                      \
    statement;                                                                               \
    ADD_FAILURE() << "nothing was thrown, but this was expected: " << std::string(sentence); \
  } catch (const ::tessera::Error& error) {                                                  \
    EXPECT_STREQ(error.what(), std::string(sentence).c_str());                               \
    EXPECT_EQ(::tessera::to_string(error.code()), ::tessera::to_string(expected_code));      \
  }                                                                                          \
  static_assert(true, "takes the semicolon")
