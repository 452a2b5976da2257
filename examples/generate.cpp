// Loads a Hugging Face folder and answers one question.
#include <iostream>

#include <tessera/language_model.h>

int main(int argc, char** argv) {
  if (argc != 3) return std::cerr << "usage: generate MODEL_FOLDER QUESTION\n", 2;
  try {
    auto model = tessera::LanguageModel::load(argv[1]);
    const tessera::Message question{"user", argv[2]};
    std::cout << model.chat({&question, 1}).text << "\n";
  } catch (const tessera::Error& error) {
    return std::cerr << "generate: " << error.what() << "\n", 1;
  }
}
