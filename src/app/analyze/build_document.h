// From files to the document.
#pragma once

#include <vector>

#include "app/analyze/document.h"
#include "app/analyze/result_file.h"

namespace tessera::app::analyze {

// Files of one kind are held against the first of them. Those of decode, batch and prefill that
// were made in the same way and have no case in common are one run: their cases are points of it.
Document build_document(const std::vector<ResultFile>& files);

}  // namespace tessera::app::analyze
