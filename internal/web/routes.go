package web

// addAPI registers every operation of the JSON API.
func (s *Server) addAPI() {
	s.addSession()
	s.addEvents()
	s.addQueue()
	s.addSeats()
	s.addHolds()
	s.addOrders()
	s.addRedemption()
	s.addChanges()
	s.addEventAdmin()
	s.addLive()
	s.addQuotas()
	s.addStaff()
	s.addAdmin()
	s.addReconcile()
	s.addAudit()
}
