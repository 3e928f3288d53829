internal import CallCore
package import CallJudge

/// The text of the simulation's signals: their sender and number.
package enum SignalText {
  package static func write(_ sender: Who, _ number: Int) -> String { "\(sender)#\(number)" }

  static func read(_ text: String) -> (Who, Int)? {
    let parts = text.split(separator: "#")
    guard parts.count == 2, let number = Int(parts[1]) else { return nil }
    let who = parts[0].split(separator: "/")
    guard who.count == 2, let who = Who(encoded: who[0], who[1]) else { return nil }
    return (who, number)
  }
}
