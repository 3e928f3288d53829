import CallCore
import CallJudge

/// A candidate with its sender and number, so that both apps can tell what was lost, doubled or reordered.
package struct NumberedCandidate: Sendable, Equatable {
  package var sender: Int
  /// Counts from 1.
  package var number: Int
  package init(sender: Int, number: Int) {
    self.sender = sender
    self.number = number
  }

  /// What stands for an ICE candidate: opaque to the cluster, of a plausible size.
  private static let prefix =
    "candidate:842163049 1 udp 1677729535 203.0.113.7 46154 typ srflx raddr 10.0.0.7 rport 46154"

  package var body: String { "\(Self.prefix) network-id \(sender) generation \(number)" }

  /// nil for a body that is no such candidate.
  package init?(body: String) {
    let words = body.split(separator: " ")
    guard words.count > 4, words[words.count - 2] == "generation",
      words[words.count - 4] == "network-id", let number = Int(words[words.count - 1]), number > 0,
      let sender = Int(words[words.count - 3])
    else { return nil }
    self.init(sender: sender, number: number)
  }
}

/// The numbered candidates of one call, as the sending and the receiving apps saw them.
struct SignalLedger: Sendable {
  /// What one device sent to another.
  struct Stream: Sendable, Hashable, Comparable {
    var sender: Int
    var receiver: Int

    static func < (a: Self, b: Self) -> Bool { (a.sender, a.receiver) < (b.sender, b.receiver) }
  }

  /// When the cluster accepted which candidate of which sender.
  private(set) var acceptedAt: [Int: [Int: Timestamp]] = [:]
  private(set) var receptions: [Stream: SignalStream] = [:]

  mutating func accepted(_ candidate: NumberedCandidate, at now: Timestamp) {
    acceptedAt[candidate.sender, default: [:]][candidate.number] = now
  }

  mutating func received(_ candidate: NumberedCandidate, by receiver: Int) -> SignalStream.Flaw? {
    let stream = Stream(sender: candidate.sender, receiver: receiver)
    return receptions[stream, default: SignalStream()].receive(candidate.number)
  }

  /// Candidates that were accepted and never arrived although a later one did, in order.
  func gaps(in stream: Stream) -> [Int] {
    guard let reception = receptions[stream] else { return [] }
    return missing(in: stream).filter { $0.number < reception.highest }.map(\.number)
  }

  /// Candidates that were accepted and never arrived, in order.
  func missing(in stream: Stream) -> [(number: Int, acceptedAt: Timestamp)] {
    let reception = receptions[stream]
    return (acceptedAt[stream.sender] ?? [:]).filter { reception?.has($0.key) != true }
      .sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
  }

  /// How many of a sender's candidates the cluster accepted that a receiver does not have.
  func missingCount(from sender: Int, to receiver: Int) -> Int {
    missing(in: Stream(sender: sender, receiver: receiver)).count
  }
}
