package import CallCore

/// The result of a push in one pool.
package enum APNsResult: Sendable, Equatable {
  case outcome(PushOutcome)
  /// APNs does not take the token in this pool's environment. It may belong to the other one.
  case tokenRefused(reason: String)
}

/// An effect that the driver performs.
package enum APNsEffect: Sendable, Equatable {
  case connect(APNsConnectionID)
  /// - Parameter attempt: 1 for the push's first.
  case send(
    APNsConnectionID, stream: UInt32, push: APNsPushKey, token: APNsTokenMachine.Token, attempt: Int
  )
  case ping(APNsConnectionID)
  /// Closes the connection. Its further events are ignored.
  case disconnect(APNsConnectionID, String)
  case complete(APNsPushKey, APNsResult)
  case note(APNsNote)
  /// After `close`: no push and no connection remains.
  case finished
}

/// An event to count or to log.
package enum APNsNote: Sendable, Equatable {
  /// An answer, and the time since its request.
  case answered(status: Int, reason: String, after: Span)
  /// An answer to a completed push.
  case answeredLate(status: Int)
  case goAway(APNsConnectionID, isError: Bool, reason: String)
  case connectionEnded(APNsConnectionID, reason: String)
  /// A push that the provider has not processed is sent on another connection.
  case requeued
  /// A push of unknown fate is sent once more, under the same id.
  case repeated
  /// An attempt had no answer in time.
  case overdue
  case wentBackToFormerToken(APNsConnectionID)
  /// An operator must act.
  case alarm(String)
  case queueFull
}
