/// An order that a user types or a script writes: one order a line.
package enum PhoneOrder: Equatable, Sendable {
  case call(String, video: Bool)
  case answer(Int?)
  case decline(Int?)
  case hangUp(Int?)
  /// An entry of `ongoing`, from 1.
  case pull(Int)
  case transfer(String)
  case cancelTransfer
  case say(String)
  case calls
  case ongoing
  case history(Int)
  case read
  /// Waits for an event that has not been waited for, at most so many seconds.
  case wait(String, seconds: Int)
  case help
  case quit
  case nothing

  /// Reads a line.
  /// - Throws: what is wrong with it, as a sentence.
  package init(_ line: String) throws(PhoneProblem) {
    let words = line.split(separator: " ").map(String.init)
    guard let name = words.first, !name.hasPrefix("#") else {
      self = .nothing
      return
    }
    let rest = Array(words.dropFirst())
    switch (name, rest.count) {
    case ("call", 1): self = .call(rest[0], video: false)
    case ("call", 2) where rest[1] == "video": self = .call(rest[0], video: true)
    case ("answer", 0...1): self = .answer(try Self.number(rest.first))
    case ("decline", 0...1): self = .decline(try Self.number(rest.first))
    case ("hangup", 0...1): self = .hangUp(try Self.number(rest.first))
    case ("pull", 0...1): self = .pull(try Self.number(rest.first) ?? 1)
    case ("transfer", 1): self = rest[0] == "cancel" ? .cancelTransfer : .transfer(rest[0])
    case ("say", 1...): self = .say(rest.joined(separator: " "))
    case ("calls", 0): self = .calls
    case ("ongoing", 0): self = .ongoing
    case ("history", 0...1): self = .history(try Self.number(rest.first) ?? 10)
    case ("read", 0): self = .read
    case ("wait", 1...2):
      let seconds = try Self.number(rest.count > 1 ? rest[1] : nil)
      self = .wait(rest[0], seconds: seconds ?? 30)
    case ("help", 0): self = .help
    case ("quit", 0): self = .quit
    default:
      guard let form = Self.forms.first(where: { $0.hasPrefix(name) }) else {
        throw PhoneProblem("There is no order \(name); help lists them.")
      }
      throw PhoneProblem("The order is: \(form)")
    }
  }

  private static func number(_ word: String?) throws(PhoneProblem) -> Int? {
    guard let word else { return nil }
    guard let number = Int(word), number > 0, number <= 100_000 else {
      throw PhoneProblem("\(word) is no number from 1 up.")
    }
    return number
  }

  /// Each order, and what it is for.
  static let forms = [
    "call USER [video]     call a user, a group or a number",
    "answer [CALL]         answer the call that rings",
    "decline [CALL]        decline it on all of your devices",
    "hangup [CALL]         end a call in whatever state it is",
    "pull [N]              take over the N-th call of the list that ongoing shows",
    "transfer USER         hand your call over; it is yours until USER answers",
    "transfer cancel       take that back",
    "say TEXT              send a text to the other side of an answered call",
    "calls                 the calls of this phone",
    "ongoing               the calls that you are in, on all of your devices",
    "history [N]           your last N calls, 10 if not given",
    "read                  mark all of them as read",
    "wait EVENT [SECONDS]  for scripts: go on when EVENT has come, 30 s at most",
    "help, quit            this list; sign out and end",
  ]
}

/// Why an order or an option cannot be carried out, as a sentence for a person.
package struct PhoneProblem: Error, Equatable, CustomStringConvertible {
  package let description: String
  package init(_ description: String) { self.description = description }
}
