import CallCore
import CallJudge
import CallWire

/// A candidate or an information with its sender and number, so that both apps see losses, repetitions and wrong order.
package struct NumberedCandidate: Sendable, Equatable {
  package var sender: Int
  /// Counts from 1.
  package var number: Int
  package init(sender: Int, number: Int) {
    self.sender = sender
    self.number = number
  }

  /// Stands for an ICE candidate: opaque to the cluster, of a plausible size.
  private static let prefix =
    "candidate:842163049 1 udp 1677729535 203.0.113.7 46154 typ srflx raddr 10.0.0.7 rport 46154"

  package var body: String { "\(Self.prefix) network-id \(sender) generation \(number)" }

  /// nil for any other body.
  package init?(body: String) {
    let words = Array(body.split(separator: " ").suffix(4))
    guard words.count == 4, words[0] == "network-id", words[2] == "generation",
      let sender = Int(words[1]), let number = Int(words[3]), number > 0
    else { return nil }
    self.init(sender: sender, number: number)
  }

  init?(_ command: ClientCommand) {
    guard case .call(_, .signal(_, let body)) = command else { return nil }
    self.init(body: body)
  }
}

/// The numbered candidates of one call, as the sending and the receiving apps saw them.
struct SignalLedger: Sendable {
  struct Stream: Sendable, Hashable, Comparable {
    var sender: Int
    var receiver: Int

    static func bothWays(_ one: Int, _ other: Int) -> [Self] {
      [Self(sender: one, receiver: other), Self(sender: other, receiver: one)]
    }

    static func < (a: Self, b: Self) -> Bool { (a.sender, a.receiver) < (b.sender, b.receiver) }
  }

  /// When the cluster accepted a candidate, by sender and number.
  private var acceptedAt: [Int: [Int: Timestamp]] = [:]
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
}
