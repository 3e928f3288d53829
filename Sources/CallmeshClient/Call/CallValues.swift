#if canImport(FoundationEssentials)
  public import FoundationEssentials
#else
  public import Foundation
#endif

extension Call {
  /// How far a call is, for this device.
  ///
  /// ```
  /// caller   placing → placed → ringing → answered → connected → ended
  /// callee   waking → ringing → answering → answered → connected → ended
  ///                      └──────────┴─→ lost (answered on another device), or ended
  /// ```
  /// A call never goes back, except that it is `answered` anew when the other side moves to another device, and rings
  /// again after an answer that failed.
  public enum State: String, Sendable, Hashable, CaseIterable {
    /// This device places it, and the cluster has not confirmed that.
    case placing
    /// The cluster has the call; no device has said that it rings.
    case placed
    /// A push announced it; the cluster was asked about it.
    case waking
    case ringing
    /// This device has answered, and does not know yet whether another one was faster.
    case answering
    /// This device is in the call: connect media.
    case answered
    /// The cluster has this device's report that media flow.
    case connected
    case ended
    /// Another device of the user has answered.
    case lost
  }

  /// Which side of the call this device has. A call that was transferred to it may be the caller's.
  public enum Role: String, Sendable { case caller, callee }

  /// Why a call is over for this device.
  public struct End: Sendable, Hashable {
    public var reason: EndReason
    /// The party that caused it; nil: none, or not known.
    public var by: Party?
    /// Show the call as missed.
    public var missed = false
    /// The call to which this one gave way.
    public var survivor: CallID?
    /// To the caller, of an `unreachable` one.
    public var unreachable: UnreachableCause?
    /// This device decided it without the cluster.
    public var isLocal = false
    /// Why the call could not be placed, or was given up.
    public var error: CallmeshError?

    public init(reason: EndReason) { self.reason = reason }
  }

  /// A message that the other side sends within a call. Messages come in order.
  public struct Signal: Sendable, Hashable {
    public enum Kind: String, Sendable {
      /// A session description.
      case description
      /// An ICE candidate.
      case candidate
      /// A text of the app's own.
      case information
    }
    public var kind: Kind
    public var body: String
  }

  /// An event of a call. A `state` follows each event other than `state`.
  public enum Event: Sendable, Hashable {
    case state(State)
    /// It rings here: alert the user, and say so with ``Call/alerting()``.
    case incoming
    /// To the caller: the cluster has the call.
    case placed
    /// To the caller: `by` alerts its user. To a callee, with nil: an answer has failed, and the call rings on.
    case ringing(by: Party?)
    /// ``Call/answer(_:)`` was called.
    case answering
    /// `isHere`: this device has won, or has taken the call over. Otherwise it is the caller's, and `description` is
    /// the answer; it may be empty, and follow as a signal.
    case answered(by: Party?, description: String, isHere: Bool)
    case connected
    /// The other side is another device from now on, perhaps of another user: connect media anew, with its description.
    case moved(to: Party, description: String)
    /// The call has gone on to others, and rings longer than before: see ``Call/deadline``.
    case ringsUntil(Date)
    /// This side's transfer: `by` rings; or no one takes the call, with the reason.
    case transfer(to: String, by: Party?, reason: EndReason?)
    /// Once for each call, and last but for `state`.
    case ended(End)
  }
}
