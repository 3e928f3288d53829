public import CallmeshClient

/// Decides what to tell CallKit and the cluster about the calls of a phone, without either of them: events go in, and
/// actions come out, in order.
///
/// Apple's rules are here. Every VoIP push is reported as a new call, under the UUID of the call and before its handler
/// returns; one that is about no call that rings is ended at once. An answer is fulfilled when the cluster says that this
/// device has the call, and fails when another one was faster. Ending a call never fails.
public struct CallKitMachine: Sendable {
  /// An action to take.
  public enum Action: Sendable, Equatable {
    /// `CXProvider.reportNewIncomingCall`.
    case report(CallID, Shown)
    /// `CXProvider.reportCall(with:endedAt:reason:)`.
    case reportEnded(CallID, EndedReason)
    /// `CXProvider.reportOutgoingCall(with:startedConnectingAt:)`.
    case reportConnecting(CallID)
    /// `CXProvider.reportOutgoingCall(with:connectedAt:)`.
    case reportConnected(CallID)
    /// Fulfil the action of this kind that is pending for the call.
    case fulfill(CallID, UserAction)
    case fail(CallID, UserAction)
    /// Ask CallKit, through a transaction, to answer the call for the user.
    case requestAnswer(CallID)
    /// `Device.wake`.
    case wake(Address, isWanted: Bool)
    case answer(CallID)
    case decline(CallID)
    case declineHere(CallID)
    case busy(CallID)
    /// `Call.finish`.
    case finish(CallID)
    case place(CallID, callee: String, video: Bool)
    case hold(CallID, Bool)
    case mute(CallID, Bool)
    /// The audio session is the app's: hand it to WebRTC, or take it back.
    case audio(isActive: Bool)
  }

  /// The data of a call that the system shows.
  public struct Shown: Sendable, Equatable {
    /// The caller's user id or number.
    public var handle: String
    public var name: String
    public var video: Bool

    public init(handle: String, name: String = "", video: Bool = false) {
      (self.handle, self.name, self.video) = (handle, name, video)
    }

    /// Stands for a push that cannot be read.
    public static let unknown = Shown(handle: "unknown")
  }

  /// `CXCallEndedReason`, by its raw values.
  public enum EndedReason: Int, Sendable {
    case failed = 1
    case remoteEnded, unanswered, answeredElsewhere, declinedElsewhere
  }

  /// The actions that the user may take in the system's own screens.
  public enum UserAction: Sendable, Hashable { case start, answer, end, hold, mute }

  /// Why the system does not show a call.
  public enum ReportError: Sendable {
    /// It shows it already.
    case isShown
    /// The user is not to be disturbed, or has blocked the caller on this phone.
    case isFiltered
    /// There are as many calls as there may be, or the app may not.
    case other
  }

  enum Stage: Sendable, Equatable {
    /// A push announced it; the cluster has not said that it rings.
    case waking
    case ringing
    /// The user has answered; the cluster has not decided. `isSent`: it has been asked.
    case answering(isSent: Bool)
    case dialling
    case talking
  }

  /// Calls that CallKit shows.
  var calls: [CallID: Stage] = [:]
  /// How calls ended, so that a late push for one is reported with its reason. `isLeft`: this phone has left it, and the
  /// cluster has not said so yet. Neither its invite, which is under way, nor a late win is shown then.
  var ended: [(id: CallID, reason: EndedReason, isLeft: Bool)] = []

  /// Policy at the limit: the oldest is forgotten, and a late push of it wakes the device, which then learns of the end.
  static let endedMax = 32

  public init() {}

  /// The calls that the system shows.
  public var shown: Set<CallID> { Set(calls.keys) }
}
