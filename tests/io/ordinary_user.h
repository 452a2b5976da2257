// Permissions do not bind root: this makes them bind for as long as it lives.
#pragma once

#include <unistd.h>

namespace tessera {

class OrdinaryUser {
 public:
  OrdinaryUser()
      : was_root_(::geteuid() == 0), is_ordinary_(!was_root_ || ::seteuid(kNobody) == 0) {}
  ~OrdinaryUser() {
    if (was_root_ && is_ordinary_ && ::seteuid(0) != 0) ::_exit(1);
  }
  OrdinaryUser(const OrdinaryUser&) = delete;
  OrdinaryUser& operator=(const OrdinaryUser&) = delete;

  explicit operator bool() const { return is_ordinary_; }  // false: root cannot become anyone else

 private:
  static constexpr uid_t kNobody = 65534;

  bool was_root_;
  bool is_ordinary_;
};

}  // namespace tessera
