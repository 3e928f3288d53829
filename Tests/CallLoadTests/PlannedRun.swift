import ArgumentParser
import CallLoadKit

/// The run of a command line.
func plan(_ words: String...) throws -> RunPlan { try plan(words) }

func plan(_ words: [String]) throws -> RunPlan {
  // A program that is surely there, where no cluster is to be started.
  try RunPlan(LoadCommand.parse(words + ["--nats", "/bin/sh", "--callnode", "/bin/sh"]), seed: 1)
}

/// The message that a user gets for a command line that is refused.
func refusal(_ words: String...) -> String { refusal(words) }

func refusal(_ words: [String]) -> String {
  do {
    _ = try RunPlan(
      LoadCommand.parse(words + ["--nats", "/bin/sh", "--callnode", "/bin/sh"]), seed: 1)
    return "accepted"
  } catch let error as SetupError {
    return error.description
  } catch {
    return LoadCommand.message(for: error)
  }
}
