package import CallCore

/// What goes wrong between nodes and NATS while it is in force. All are probabilities, 0...1.
package struct SimNetworkFaults: Sendable {
  /// How long a message takes from a node to the server, and from there to another.
  package var hopShortest = Span(microseconds: 40)
  package var hopLongest = Span(microseconds: 400)

  /// A message to a subscriber is lost.
  package var lose = 0.0
  /// It comes twice, the second time late.
  package var duplicate = 0.0
  /// It comes late, and so does what follows it from the same publisher on the same subject.
  package var delay = 0.0
  package var delayLongest = Span.milliseconds(400)
  /// It comes late and what follows overtakes it: more than a bus may do.
  package var reorder = 0.0

  /// A write is not taken, and nobody says so.
  package var writeLost = 0.0
  /// A write is taken, and the answer is lost.
  package var writeAnswerLost = 0.0
  /// A write is taken later than its writer waits, at times.
  package var writeLate = 0.0
  package var writeLateLongest = Span.seconds(4)
  /// An append that expects an older end is taken all the same, behind what came between, and
  /// acknowledged: as by a replicated store that checks when it is asked, not when it stores.
  package var appendRaces = 0.0
  /// A compare-and-set in a bucket that another one, a moment ago, came before is taken all the same.
  package var putRaces = 0.0
  /// The store says that it cannot now; the write is not taken.
  package var writeFails = 0.0
  /// The store says that another write came first, though none did.
  package var writeRefused = 0.0
  /// A job does not arrive at the gateway that it was given to: the queue gives it to one later.
  package var jobLost = 0.0
  /// What a gateway says of a job does not arrive.
  package var settlementLost = 0.0
  /// A read has no answer.
  package var readLost = 0.0
  /// A read of a journal's end is answered by a replica that lags.
  package var readStale = 0.0

  package init() {}

  package static let none = SimNetworkFaults()
}
