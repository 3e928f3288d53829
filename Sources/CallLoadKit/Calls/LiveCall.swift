import CallClient
import CallCore

/// A call that is played, and how far it has come.
final class LiveCall {
  /// Stands for a session description: opaque to the cluster, of a plausible size.
  static let description =
    "v=0\r\no=- 46117317 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\na=group:BUNDLE 0\r\n"
    + "m=audio 9 UDP/TLS/RTP/SAVPF 111\r\nc=IN IP4 0.0.0.0\r\na=ice-ufrag:4ZcD\r\n"
    + "a=ice-pwd:2/1muCWoOi3uLifh0NuRHlCs\r\na=setup:actpass\r\na=mid:0\r\na=sendrecv\r\n"
    + "a=rtcp-mux\r\na=rtpmap:111 opus/48000/2\r\n"

  let plan: CallPlan
  /// Devices of the callee that were attached when it was placed, and never sleep.
  let expectedInvites: Int
  /// The first invite, from which the part's acts count.
  var ringsSince: Timestamp?
  /// The length of ringing, by the cluster's clock alone.
  var ringSpan: Span?
  var invited: Set<Int> = []
  /// The number of invited devices that never sleep.
  var awakeInvited = 0
  /// When the last device was notified.
  var lastElsewhereAt: Timestamp?
  var lastCancelAt: Timestamp?
  /// The intended times of answers, by device.
  var answerIntended: [Int: Timestamp] = [:]
  /// Devices that are to answer as soon as they ring.
  var answersOnInvite: Set<Int> = []
  var cancelIntended: Timestamp?
  /// Refusals that sleeping devices send as soon as they ring.
  var refusesOnInvite: [Int: CallVerb] = [:]
  /// Devices that act over HTTP, with a push's capability.
  var actsByPush: Set<Int> = []
  var isOver: Set<Int> = []
  /// The dropped device is attached again.
  var isBack = false
  var candidatesSent: [Int: Int] = [:]
  /// Devices whose next candidate has a timer.
  var streaming: Set<Int> = []
  /// Devices that ask to take the call over, and the one that did.
  var pulling: Set<Int> = []
  var puller: Int?
  /// It was time to hang up, though the device that was to may have lost the call to another one.
  var isTalkOver = false
  /// Devices that have hung up.
  var hangingUp: Set<Int> = []
  /// The device that answered, as the caller knows.
  var winner: Int?
  /// Members of a group who have rung, the first one first.
  var rungMembers: [Int] = []
  /// The third user's devices that rang for a transfer.
  var rungByTransfer: Set<Int> = []
  /// The third user's device that was asked before, and is the only one that rings.
  var asked: Int?
  /// The third user's device that is to act as soon as it rings.
  var actsOnTransfer = false
  /// The third user's device that has taken a side.
  var taker: Int?
  /// Devices that were notified of the answer and take part in the conversation.
  var talking: Set<Int> = []
  /// The call was placed that is to come while this one is answered.
  var hasPlacedSecond = false

  init(plan: CallPlan, expectedInvites: Int) {
    self.plan = plan
    self.expectedInvites = expectedInvites
  }
}
